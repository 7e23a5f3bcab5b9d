"""Reported faults between what sampled a token and what trains on it: shifts, temperature, precision."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor, nn

from algorithms.critic import CriticRecipe
from algorithms.grpo import grpo
from algorithms.likelihood import token_log_probs
from algorithms.ratio import per_token
from algorithms.rollout import Batch
from algorithms.sao import sao
from tests.algorithms.make import T64, batch, rows
from tests.simulator.lab.worlds import learner, sampled_by


class TinyModel(nn.Module):
    """A causal language model of eleven words, in single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.body = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, 11)

    def forward(self, ids: Tensor) -> Tensor:
        """Row t predicts token t + 1."""
        out: Tensor = self.head(self.body(self.embed(ids))[0])
        return out


def model() -> TinyModel:
    torch.manual_seed(0)
    made = TinyModel()
    with torch.no_grad():
        made.head.weight *= 20  # sure of itself, so that a shift or a temperature shows
    return made


@torch.no_grad()
def sampled(lm: TinyModel, temperature: float) -> Batch:
    """Four answers of six tokens after a prompt of three, one token at a time, as an engine does it."""
    generator = torch.Generator().manual_seed(1)
    ids, scored = torch.tensor([[1, 2, 3]] * 4), []
    for _ in range(6):
        log_probs = (lm(ids)[:, -1] / temperature).log_softmax(-1)
        chosen = torch.multinomial(log_probs.exp(), 1, generator=generator)
        scored.append(log_probs.gather(-1, chosen))
        ids = torch.cat([ids, chosen], dim=1)
    return batch(
        torch.ones(4, 6, dtype=torch.bool),
        torch.float32,
        token_ids=ids[:, 3:],
        behaviour_log_probs=torch.cat(scored, dim=1),
        temperature=torch.full((4,), temperature),
    )


@torch.no_grad()
def answer_logits(lm: TinyModel, rolled: Batch) -> Tensor:
    """One pass over prompt and answers, as a trainer does it; row t predicts answer token t."""
    prompt = torch.tensor([[1, 2, 3]] * 4)
    return lm(torch.cat([prompt, rolled.token_ids], dim=1))[:, 2:-1]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_same_weights_give_every_token_ratio_one(temperature: float):
    """A24, A22: a tiny model at learning rate 0: token by token against a single pass, within 1e-5."""
    lm = model()
    rolled = sampled(lm, temperature)
    logits = answer_logits(lm, rolled)
    ratios = per_token(token_log_probs(logits, rolled), rolled).exp()
    torch.testing.assert_close(ratios, torch.ones(4, 6), atol=1e-5, rtol=0)


def test_a_shift_by_one_or_another_temperature_is_far_from_one():
    """A24, A22: what the two faults look like, and why ratio one is worth asserting."""
    lm = model()
    rolled = sampled(lm, 0.6)
    logits = answer_logits(lm, rolled)
    at_one = dataclasses.replace(rolled, temperature=torch.ones(4))
    assert per_token(token_log_probs(logits, at_one), rolled).abs().mean() > 0.05
    shifted = per_token(token_log_probs(logits.roll(1, dims=1), rolled), rolled)
    assert shifted[:, 1:].abs().mean() > 1.0


def test_logits_of_another_length_are_refused_where_gather_would_accept_them():
    """A24: logits of length 5 with labels of length 3."""
    logits, labels = torch.zeros(5, 7), torch.zeros(3, 1, dtype=torch.long)
    assert torch.gather(logits, -1, labels).shape == (3, 1)
    with pytest.raises(ValueError, match=r"logits cover \(1, 5\), action_mask \(1, 3\)"):
        token_log_probs(logits[None].double(), batch([[1, 1, 1]]))


def test_the_temperature_divides_logits_and_not_log_probs():
    """A22: logits [2, 1, 0] at .6; the mix of temperatures gives 1.2276, .6303 and .3236."""
    logits = rows([2.0, 1.0, 0.0])
    each = batch([[1, 1, 1]], token_ids=torch.tensor([[0, 1, 2]]), temperature=torch.tensor([0.6], dtype=T64))
    tempered = token_log_probs(logits[:, None].expand(1, 3, 3), each)[0]
    assert tempered.tolist() == pytest.approx([-0.20257, -1.86924, -3.53591], abs=5e-6)
    plain = logits[0].log_softmax(-1)
    assert plain.tolist() == pytest.approx([-0.40761, -1.40761, -2.40761], abs=5e-6)
    assert (tempered - plain).exp().tolist() == pytest.approx([1.2276, 0.6303, 0.3236], abs=5e-5)
    divided = plain / 0.6
    assert divided[0].item() == pytest.approx(-0.67934, abs=1e-5)
    assert tempered.exp().sum().item() == pytest.approx(1.0)
    assert divided.exp().sum().item() < 0.7


def test_log_probs_in_half_precision_lose_the_ratio_and_logits_in_it_need_not():
    """A44: -10.03 against -10.00: 1.03045, or 1.0 and then 1.0645 where bfloat16 has stored them."""
    for dtype, wanted in ((torch.float32, 1.03045), (torch.bfloat16, 1.0)):
        stored = torch.tensor([[-10.03]]).to(dtype)
        ratio = per_token(torch.tensor([[-10.0]]), batch([[1]], behaviour_log_probs=stored)).exp()
        assert ratio.item() == pytest.approx(wanted, abs=5e-6)
    assert math.exp(0.0625) == pytest.approx(1.0645, abs=5e-5)
    logits = torch.tensor([[[5.0, -5.0, 0.5]]], dtype=torch.bfloat16)
    single = batch([[1]], torch.float32, token_ids=torch.tensor([[1]]))
    got = token_log_probs(logits, single)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), logits.double().log_softmax(-1)[..., 1], atol=1e-6, rtol=0)


def test_small_steps_are_lost_on_half_precision_weights_and_no_weight_here_is_one():
    """A45: 1.0 minus a thousand times 1e-3: about 9e-6 in float32, still 1.0 in bfloat16."""
    ends = {}
    for dtype in (torch.float32, torch.bfloat16):
        weight = torch.ones((), dtype=dtype)
        for _ in range(1000):
            weight -= 1e-3
        ends[dtype] = weight.item()
    assert abs(ends[torch.float32]) < 2e-5
    assert ends[torch.bfloat16] == 1.0
    student = learner(sao(critic=CriticRecipe(critic_only_updates=0)), rate=1e-5)
    assert student.critic is not None
    critic = [weight for _, weight in student.critic.network.named_parameters()]
    weights = [*student.policy.parameters(), *critic]
    assert {w.dtype for w in weights} == {torch.float32}
    before = [w.detach().clone() for w in weights]
    for _ in range(3):
        student.update(sampled_by(student, group_size=1))
    assert all(not torch.equal(a, b) for a, b in zip(before, weights, strict=True))


def test_at_learning_rate_zero_nothing_is_clipped_masked_or_moved():
    """A53: one epoch on the same weights; what is left would be a numeric mismatch."""
    for estimator, group_size in ((grpo(), 8), (sao(), 1)):
        student = learner(estimator, rate=0.0)
        for _ in range(2):
            lesson = sampled_by(student, group_size=group_size)
            rolled = lesson.batch
            seen = student.update(lesson)
            assert seen["clipped_fraction"] == seen["masked_fraction"] == 0.0
            drift = per_token(student.policy.log_probs(lesson.prompts, rolled.token_ids).detach(), rolled)
            assert drift.abs().mean() < 1e-5
