"""Every composition against its paper's formulas in plain Python, one token at a time."""

from __future__ import annotations

import dataclasses
import math
import random
from statistics import fmean

import pytest
import torch
from torch import Tensor

from algorithms.catalogue import by_name
from algorithms.rollout import Batch
from tests.laws.compositions import loss_and_gradient
from tests.oracles import loops
from tests.oracles.loop_losses import (
    Twin,
    bapo,
    binary_kl,
    cut,
    dis,
    dppo,
    each,
    evaluated,
    gmpo,
    gspo,
    imitated,
    m2po,
    of_rollout,
    opsm,
    ppo,
    pulled,
    reinforce,
    soft,
    tapered,
    tba,
    vespo,
)
from tests.oracles.loops import rows_of

GRPO = Twin(advantage=loops.grouped, loss=each(ppo(0.8, 1.28)), mean="rollouts")
MU = dataclasses.replace(GRPO, loss=each(ppo(0.8, 1.28), "mu"))
DIS = each(dis(0.7, 6.0), "mu")
SAO = Twin(advantage=loops.gae_at(lambda n: 1 - 1 / (1.5 * n)), loss=DIS, mean="tokens")
TOKENS = dataclasses.replace(GRPO, mean="tokens")
CENTRED = dataclasses.replace(TOKENS, advantage=loops.group_mean)
PPO = each(ppo(0.8, 1.2))


def of(base: Twin, **changed: object) -> Twin:
    return dataclasses.replace(base, **changed)  # type: ignore[arg-type]


TWINS: dict[str, Twin] = {
    "grpo": GRPO,
    "grpo_behaviour_clip": MU,
    "grpo_dis": of(GRPO, loss=DIS),
    "sao": SAO,
    "sao_dis_only": SAO,
    "sao_running_mean": of(SAO, advantage=loops.past_mean),
    "sao_step_mean": of(SAO, advantage=loops.by_step(fmean)),
    "sao_step_last": of(SAO, advantage=loops.by_step(lambda values: values[-1])),
    "token_tis": of(GRPO, weight=loops.token_weight(lambda r: min(r, 2.0))),
    "sequence_tis": of(GRPO, weight=loops.product_weight(lambda r: min(r, 2.0))),
    "sequence_mis": of(GRPO, weight=loops.product_weight(lambda r: r if 0.5 <= r <= 2 else 0.0)),
    "geometric_rs": of(GRPO, weight=loops.geometric(0.999, 1.001)),
    "k3_rs": of(GRPO, weight=loops.k3_at_most(0.01)),
    "veto_rs": of(GRPO, weight=loops.no_token_below(1e-4)),
    "icepop": of(GRPO, weight=loops.token_weight(lambda r: r if 0.5 <= r <= 5 else 0.0)),
    "kpop": of(GRPO, weight=loops.kpop(0.1)),
    "decoupled_ppo": of(GRPO, loss=PPO, weight=loops.token_weight(lambda r: r)),
    "mis_po": Twin(
        advantage=loops.gae_at(lambda n: 1.0),  # noqa: ARG005
        loss=each(reinforce),
        mean="tokens",
        weight=loops.product(
            loops.token_weight(lambda r: float(0.5 <= r <= 2)), loops.geometric(0.996, 1.001)
        ),
    ),
    "dr_grpo": of(CENTRED, loss=PPO, mean="sum"),
    "dapo": TOKENS,
    "rloo": Twin(advantage=loops.left_out, loss=each(reinforce), mean="sum"),
    "reinforce_pp": of(TOKENS, advantage=loops.to_come_white, loss=PPO),
    "reinforce_pp_baseline": of(TOKENS, advantage=loops.group_mean_white, loss=PPO),
    "gspo": of(GRPO, loss=gspo),
    "gspo_token": of(GRPO, loss=gspo),
    "gmpo": of(GRPO, loss=gmpo),
    "cispo": of(TOKENS, loss=each(cut(0.0, 1.2))),
    "scalerl": Twin(advantage=loops.scaled_by_batch, loss=each(cut(0.0, 5.0), "mu"), mean="prompts"),
    "pipelinerl": of(CENTRED, loss=each(cut(0.0, 5.0), "mu")),
    "aipo": of(CENTRED, loss=each(cut(0.0, 4.0), "mu")),
    "torchforge_reinforce": of(TOKENS, loss=each(cut(0.1, 10.0), "mu")),
    "topr": of(CENTRED, loss=of_rollout(tapered)),
    "vespo": of(TOKENS, loss=of_rollout(vespo)),
    "dppo_tv": of(TOKENS, loss=each(dppo(lambda pi, mu: abs(pi - mu), 0.2), "mu")),
    "dppo_kl": of(TOKENS, loss=each(dppo(binary_kl, 0.05), "mu")),
    "sapo": of(GRPO, loss=each(soft)),
    "grpo_delta": of(GRPO, loss=each(ppo(0.8, 1.2, cap=4.0), "mu")),
    "opsm": of(GRPO, loss=opsm),
    "kimi": of(CENTRED, loss=each(pulled(0.05, reinforce))),
    "m2po": of(TOKENS, loss=m2po, searched=True),
    "m2po_areal": of(TOKENS, loss=PPO, drops=True),
    "bapo": of(TOKENS, loss=bapo, searched=True),
    "vcpo": Twin(
        advantage=loops.grouped_population,
        loss=each(reinforce),
        mean="sum",
        weight=loops.product_weight(lambda r: min(r, 8.0)),
    ),
    "vtrace": Twin(
        advantage=loops.vtrace,
        loss=each(reinforce),
        mean="tokens",
        weight=loops.token_weight(lambda r: min(r, 1.0)),
    ),
    "vc_ppo": Twin(advantage=loops.gae_at(lambda n: 0.95), loss=PPO, mean="tokens"),  # noqa: ARG005
    "vapo": Twin(
        advantage=loops.gae_at(lambda n: 1 - 1 / (0.05 * n)),
        loss=imitated(each(ppo(0.8, 1.28))),
        mean="tokens",
    ),
    "spo": of(TOKENS, advantage=loops.past_mean_white),
}

SEEDS = 4
STEPS = {"calm": (0.0, 1e-4, 0.02), "usual": (0.02, 0.3, 1.0), "extreme": (0.3, 5.0, 100.0)}
"""Nats that one policy may be from another; each rollout has one of the three."""


def drawn(
    seed: int, steps: tuple[float, ...], *, shortest: int = 1, longest: int = 8
) -> tuple[Batch, Tensor]:
    """Groups of one, of equal rewards, of unequal sizes and out of order; gaps; truncation; a rollout without
    any action; NaN in all that nothing may read."""
    rng = random.Random(f"{seed} {steps}")
    groups = [3, 8, 3, 5, 8, 3, 1, 8, 5]
    rng.shuffle(groups)
    table: dict[str, list[list[float]]] = {
        name: [] for name in ("mask", "pi", "old", "mu", "ref", "reward", "value")
    }
    for group in groups:
        length = rng.randint(shortest, longest)
        mask = [rng.random() < 0.75 for _ in range(length)]
        while sum(mask) < shortest:
            mask[rng.randrange(length)] = True
        if len(table["mask"]) == 4:
            mask = [False] * length
        pi = [-rng.uniform(0.05, 2.5) for _ in mask]
        step, other = rng.choice(steps), rng.choice(steps)
        table["mask"].append(_wide(mask, longest, False))
        # A log-prob is negative, by some margin: the twins divide by 1 - p.
        old = [min(x + step * rng.uniform(-1, 1), -0.01) for x in pi]
        table["pi"].append(_wide(pi, longest))
        table["old"].append(_wide(old, longest))
        table["mu"].append(_wide([min(x + other * rng.uniform(-1, 1), -0.01) for x in old], longest))
        table["ref"].append(_wide([min(x + rng.uniform(-1, 1), -0.01) for x in pi], longest))
        reward = [rng.uniform(-1, 1) for _ in mask]
        if group == 5:  # no signal
            reward = [0.0] * length
        table["reward"].append(_wide(reward, longest))
        table["value"].append(_wide([rng.uniform(-1, 1) for _ in mask], longest))
    mask = torch.tensor(table.pop("mask")).bool()
    read = {
        name: torch.tensor(rows, dtype=torch.float64).where(mask, math.nan) for name, rows in table.items()
    }
    truncated = torch.tensor([rng.random() < 0.4 for _ in groups])
    bootstrap = torch.tensor([rng.uniform(-1, 1) for _ in groups], dtype=torch.float64)
    batch = Batch(
        token_ids=torch.zeros_like(mask, dtype=torch.long),
        action_mask=mask,
        behaviour_log_probs=read["mu"],
        old_log_probs=read["old"],
        reference_log_probs=read["ref"],
        policy_versions=torch.zeros_like(mask, dtype=torch.long),
        rewards=read["reward"],
        values=read["value"],
        bootstrap_values=bootstrap.where(truncated, math.nan),
        baselines=torch.tensor([rng.uniform(-1, 1) for _ in groups], dtype=torch.float64),
        prompt_ids=torch.tensor(groups),
        group_ids=torch.tensor(groups),
        truncated=truncated,
        temperature=torch.ones(len(groups), dtype=torch.float64),
    )
    return batch, read["pi"]


def sizes(name: str) -> dict[str, int]:
    """VAPO refuses rollouts under twenty actions."""
    return {"shortest": 20, "longest": 32} if name == "vapo" else {}


def _wide(row: list, width: int, fill: float = math.nan) -> list:
    return [*row, *[fill] * (width - len(row))]


def test_every_composition_has_a_twin():
    assert {*TWINS, "tba"} == set(by_name())


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("name", by_name())
def test_loss_and_gradient(name: str, steps: tuple[float, ...]):
    for seed in range(SEEDS):
        batch, log_probs = drawn(seed, steps, **sizes(name))
        rows = rows_of(batch, log_probs.tolist())
        loss, gradient = loss_and_gradient(by_name()[name](), log_probs, batch)
        wanted, slopes = tba(rows) if name == "tba" else evaluated(TWINS[name], rows)
        assert loss.item() == pytest.approx(wanted, rel=1e-9, abs=1e-9), seed
        flat = torch.tensor([slope for row in slopes for slope in row], dtype=torch.float64)
        by_token = torch.zeros_like(gradient).masked_scatter(batch.action_mask, flat)
        torch.testing.assert_close(gradient, by_token, rtol=1e-9, atol=1e-9)


def test_the_trainer_may_forget_to_detach():
    """No gradient flows into a field of the batch, whatever it was made of."""
    batch, log_probs = drawn(0, STEPS["usual"])
    fields = {
        field.name: tensor.detach().clone().requires_grad_()
        for field in dataclasses.fields(batch)
        if (tensor := getattr(batch, field.name)) is not None and tensor.is_floating_point()
    }
    for name, make in by_name().items():
        if name != "vapo":
            attached = dataclasses.replace(batch, **fields)
            loss, gradient = loss_and_gradient(make(), log_probs, batch)
            again, same = loss_and_gradient(make(), log_probs, attached)
            torch.testing.assert_close((again, same), (loss, gradient), rtol=0, atol=0)
            assert all(tensor.grad is None for tensor in fields.values()), name


@pytest.mark.parametrize("name", by_name())
def test_tensors_are_made_where_the_batch_is(name: str):
    """A default device that refuses to mix with others stands for a GPU."""
    batch, log_probs = drawn(1, STEPS["usual"], **sizes(name))
    torch.set_default_device("meta")
    try:
        loss, _ = loss_and_gradient(by_name()[name](), log_probs, batch)
    finally:
        torch.set_default_device(None)
    assert loss.isfinite()


@pytest.mark.parametrize("name", by_name())
def test_no_rollouts_lose_nothing(name: str):
    batch, log_probs = drawn(1, STEPS["usual"], **sizes(name))
    loss, gradient = loss_and_gradient(by_name()[name](), log_probs[:0], batch.rows(slice(0, 0)))
    assert loss.item() == 0
    assert gradient.shape == log_probs[:0].shape
