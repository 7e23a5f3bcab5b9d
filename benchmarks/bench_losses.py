"""What do a loss and its gradient cost, beside the shortest PyTorch for the same formula?

    python -m benchmarks.bench_losses [--rollouts 64] [--tokens 8192] [--repeats 100]

Ours is `total`, `loss` and `backward`, as in a training step. By hand is the formula as one would type it:
masked by multiplication, so that one NaN in the padding ruins it, and without a bound on the ratio. Where
polgrad knows the formula it stands beside, and so does TRL where it is installed (see `loss_peers`): `make
oracles`, then `.venv-oracles/bin/python -m benchmarks.bench_losses`. Before anything is timed, loss and
gradient must agree. Memory is the peak above the inputs, of forward and backward together, the gradient
itself included. The bars are 1.2 times the time and 1.1 times the memory by hand, and no slower than polgrad.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from algorithms.cispo import cispo
from algorithms.decoupled import decoupled_ppo
from algorithms.estimator import Estimator
from algorithms.gae import length_adaptive, skip_observation_gae
from algorithms.grpo import grpo, grpo_behaviour_clip, grpo_dis
from algorithms.gspo import gspo
from algorithms.rollout import Batch
from algorithms.sao import sao
from algorithms.tis import token_tis
from benchmarks import loss_peers
from benchmarks.memory import peak_bytes
from benchmarks.turns import best_seconds

Loss = Callable[[Tensor, Batch, Tensor], Tensor]
"""(log pi, batch, advantages) -> loss."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One formula, written up to four times."""

    estimator: Estimator
    by_hand: Loss
    polgrad: Loss | None = None
    trl: Loss | None = None


def sequence_mean(terms: Tensor, mask: Tensor) -> Tensor:
    return ((terms * mask).sum(-1) / mask.sum(-1)).mean()


def token_mean(terms: Tensor, mask: Tensor) -> Tensor:
    return (terms * mask).sum() / mask.sum()


def clip(ratio: Tensor, a: Tensor, low: float, high: float) -> Tensor:
    return torch.min(ratio * a, ratio.clamp(1 - low, 1 + high) * a)


def hand_grpo(lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    return -sequence_mean(clip((lp - b.old_log_probs).exp(), a, 0.2, 0.28), b.action_mask)


def against_mu(loss: Loss, lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    return loss(lp, dataclasses.replace(b, old_log_probs=b.behaviour_log_probs), a)


def hand_double_sided(mean: Callable[[Tensor, Tensor], Tensor], lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    ratio = (lp.detach() - b.behaviour_log_probs).exp()
    return -mean(ratio * ((ratio > 0.7) & (ratio < 6.0)) * a * lp, b.action_mask)


def hand_cispo(lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    weight = (lp.detach() - b.old_log_probs).exp().clamp(max=1.2)
    return -token_mean(weight * a * lp, b.action_mask)


def hand_gspo(lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    mask = b.action_mask
    ratio = (((lp - b.old_log_probs) * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)).exp()
    return -sequence_mean(clip(ratio, a, 3e-4, 4e-4), mask)


def hand_gspo_by_rollout(lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    mask = b.action_mask
    ratio = (((lp - b.old_log_probs) * mask).sum(-1) / mask.sum(-1)).exp()
    return -clip(ratio, a[:, 0], 3e-4, 4e-4).mean()


def hand_token_tis(lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    weight = (b.old_log_probs - b.behaviour_log_probs).exp().clamp(max=2.0)
    return -sequence_mean(weight * clip((lp - b.old_log_probs).exp(), a, 0.2, 0.28), b.action_mask)


def hand_decoupled(lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    weight = (b.old_log_probs - b.behaviour_log_probs).exp()
    return -sequence_mean(weight * clip((lp - b.old_log_probs).exp(), a, 0.2, 0.2), b.action_mask)


ROWS: dict[str, Row] = {
    "grpo": Row(
        estimator=grpo(), by_hand=hand_grpo, polgrad=loss_peers.POLGRAD_GRPO, trl=loss_peers.TRL_GRPO
    ),
    "grpo_behaviour_clip": Row(
        estimator=grpo_behaviour_clip(),
        by_hand=partial(against_mu, hand_grpo),
        polgrad=partial(against_mu, loss_peers.POLGRAD_GRPO),
        trl=partial(against_mu, loss_peers.TRL_GRPO),
    ),
    "grpo_dis": Row(estimator=grpo_dis(), by_hand=partial(hand_double_sided, sequence_mean)),
    "sao": Row(estimator=sao(), by_hand=partial(hand_double_sided, token_mean)),
    "cispo": Row(
        estimator=cispo(), by_hand=hand_cispo, polgrad=loss_peers.POLGRAD_CISPO, trl=loss_peers.TRL_CISPO
    ),
    "gspo": Row(
        estimator=gspo(), by_hand=hand_gspo, polgrad=loss_peers.POLGRAD_GSPO, trl=loss_peers.TRL_GSPO
    ),
    # Shorter still, if every token of a rollout has the same advantage, which an estimator cannot know.
    "gspo, [B] advantages": Row(estimator=gspo(), by_hand=hand_gspo_by_rollout),
    "token_tis": Row(estimator=token_tis(), by_hand=hand_token_tis, polgrad=loss_peers.POLGRAD_TOKEN_TIS),
    "decoupled_ppo": Row(estimator=decoupled_ppo(), by_hand=hand_decoupled),
}


def ours(estimator: Estimator, lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    return estimator.loss(lp, b, advantages=a, total=estimator.total(b))


def ragged(rollouts: int, tokens: int) -> tuple[Batch, Tensor]:
    """Rollouts of 40 to 100 % of the width, and the log-probs of a policy about a tenth of a nat away."""
    draw = torch.Generator().manual_seed(0)
    shape = (rollouts, tokens)
    lengths = torch.linspace(0.4, 1.0, rollouts).mul(tokens).long().clamp(min=1)

    def near(log_probs: Tensor) -> Tensor:
        return log_probs + 0.1 * torch.randn(shape, generator=draw)

    behaviour = -torch.rand(shape, generator=draw).mul(3.0) - 0.5
    old = near(behaviour)
    batch = Batch(
        token_ids=torch.zeros(shape, dtype=torch.long),
        action_mask=torch.arange(tokens) < lengths[:, None],
        behaviour_log_probs=behaviour,
        old_log_probs=old,
        policy_versions=torch.zeros(shape, dtype=torch.long),
        rewards=torch.randn(shape, generator=draw),
        prompt_ids=torch.arange(rollouts),
        group_ids=torch.arange(rollouts) // 8,
        truncated=torch.zeros(rollouts, dtype=torch.bool),
        temperature=torch.ones(rollouts),
        values=torch.randn(shape, generator=draw),
    )
    return batch, near(old)


def step(loss: Loss, leaf: Tensor, batch: Batch, advantages: Tensor) -> Tensor:
    leaf.grad = None
    value = loss(leaf, batch, advantages)
    value.backward()
    return value.detach()


def measure(name: str, row: Row, batch: Batch, log_probs: Tensor, advantages: Tensor, repeats: int) -> str:
    others = {"polgrad": row.polgrad, "trl": row.trl if importlib.util.find_spec("trl") else None}
    beside = {name: loss for name, loss in others.items() if loss}
    losses = [partial(ours, row.estimator), row.by_hand, *beside.values()]
    leaf = log_probs.requires_grad_()
    works = [partial(step, loss, leaf, batch, advantages) for loss in losses]
    results = [(work(), leaf.grad) for work in works]
    for value, gradient in results[1:]:
        torch.testing.assert_close(results[0][0], value, rtol=1e-4, atol=1e-6)
        # A ratio within rounding of a bound may fall on either side of it: a handful in half a million.
        apart = ~torch.isclose(results[0][1], gradient, rtol=1e-4, atol=1e-12)
        assert apart.float().mean() < 1e-4, f"{name}: {int(apart.sum())} gradients differ"
    seconds = best_seconds(*works, repeats=repeats)
    peaks = []
    for work in works:
        leaf.grad = None
        peaks.append(peak_bytes(work))
    unit = log_probs.numel() * log_probs.element_size()
    text = (
        f"{name:21} {seconds[0] * 1e3:7.2f} ms, by hand {seconds[1] * 1e3:7.2f} ms,"
        f" ratio {seconds[0] / seconds[1]:4.2f}; peak {peaks[0] / unit:5.2f} x [B, T],"
        f" by hand {peaks[1] / unit:5.2f}, ratio {peaks[0] / peaks[1]:4.2f}"
    )
    for other, time_s, peak in zip(beside, seconds[2:], peaks[2:], strict=True):
        text += f"; {other} {time_s * 1e3:7.2f} ms, {peak / unit:5.2f}"
    return text


def loop_gae(batch: Batch, lam: Tensor) -> Tensor:
    """The recursion as printed, in double as ours: a column at a time, for right-padded rollouts only."""
    mask = batch.action_mask.double()
    values, rewards = batch.values * mask, batch.rewards * mask
    advantages = torch.zeros_like(values)
    later = following = torch.zeros_like(lam)
    for t in reversed(range(mask.shape[1])):
        later = rewards[:, t] + following - values[:, t] + lam * later
        following = values[:, t]
        advantages[:, t] = later
    return advantages.float()


def gae_line(batch: Batch, repeats: int) -> str:
    lam = length_adaptive(1.5)
    works = (
        partial(skip_observation_gae, batch, lam=lam),
        partial(loop_gae, batch, lam(batch.action_tokens)),
    )
    torch.testing.assert_close(works[0](), works[1](), rtol=1e-5, atol=1e-5)
    seconds = best_seconds(*works, repeats=repeats)
    return (
        f"sao's GAE {seconds[0] * 1e3:.1f} ms, loop over tokens {seconds[1] * 1e3:.1f} ms, ratio"
        f" {seconds[0] / seconds[1]:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=100)
    args = parser.parse_args()
    torch.set_num_threads(1)
    batch, log_probs = ragged(args.rollouts, args.tokens)
    per_rollout = torch.randn(args.rollouts, 1, generator=torch.Generator().manual_seed(1))
    per_rollout = per_rollout.expand(batch.action_mask.shape).contiguous()
    per_token = skip_observation_gae(batch, lam=length_adaptive(1.5))
    for name, row in ROWS.items():
        advantages = per_token if name == "sao" else per_rollout
        print(measure(name, row, batch, log_probs, advantages, args.repeats), flush=True)
    print(gae_line(batch, max(1, args.repeats // 10)))
    if importlib.util.find_spec("trl") is None:
        print("trl: not measured, not installed here (make oracles)")


if __name__ == "__main__":
    main()
