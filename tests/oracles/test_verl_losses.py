"""Losses and gradients of verl 0.9.1, in float64. https://pypi.org/project/verl/.

Measured: 4e-16 at most. But verl adds 1e-8 to the length of each rollout: what is averaged over each rollout
first differs by 1e-8 at most.
"""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from algorithms.aggregate import constant, sequence_mean, token_mean
from algorithms.cispo import cispo
from algorithms.correction import sequence_truncated, token_truncated
from algorithms.dapo import dapo
from algorithms.dppo import dppo_kl, dppo_tv
from algorithms.dr_grpo import dr_grpo
from algorithms.estimator import Estimator
from algorithms.gmpo import gmpo
from algorithms.grpo import grpo, grpo_corrected
from algorithms.gspo import gspo, gspo_token
from algorithms.kimi import kimi
from algorithms.rejection import sequence_band
from algorithms.rloo import rloo
from algorithms.rollout import Batch
from algorithms.sapo import sapo
from algorithms.trust import dual_clip
from tests.laws.compositions import policy_near
from tests.oracles.peers import paired, peer

pytestmark = pytest.mark.oracles
algos = peer("verl.trainer.ppo.core_algos")
configs = peer("verl.workers.config.actor")
corrections = peer("verl.trainer.ppo.rollout_corr_helper")

NO_CAP = 1e30


def config(low: float, high: float, cap: float, beta: float | None = None):
    return configs.ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=low,
        clip_ratio_high=high,
        clip_ratio_c=cap,
        policy_loss=configs.PolicyLossConfig(dro_beta=beta),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """An estimator of ours, and the name, bounds and aggregation of theirs."""

    ours: Estimator
    name: str
    mode: str
    low: float = 0.2
    high: float = 0.2
    cap: float = NO_CAP
    beta: float | None = None

    def theirs(self, log_probs: Tensor, batch: Batch, advantages: Tensor, mask=None, weights=None) -> Tensor:
        loss, _ = algos.get_policy_loss_fn(self.name)(
            old_log_prob=batch.old_log_probs,
            log_prob=log_probs,
            advantages=advantages,
            response_mask=(batch.action_mask if mask is None else mask).double(),
            loss_agg_mode=self.mode,
            config=config(self.low, self.high, self.cap, self.beta),
            rollout_is_weights=weights,
        )
        return loss


PAIRS = {
    "grpo": Pair(ours=grpo(), name="vanilla", mode="seq-mean-token-mean", high=0.28),
    "dapo": Pair(ours=dapo(), name="vanilla", mode="token-mean", high=0.28),
    "dr_grpo": Pair(ours=dr_grpo(tokens=6), name="vanilla", mode="seq-mean-token-sum-norm"),
    "dual clip": Pair(
        ours=dataclasses.replace(dapo(), trust=dual_clip(0.2, 0.28, cap=3.0)),
        name="vanilla", mode="token-mean", high=0.28, cap=3.0,
    ),
    "gspo": Pair(ours=gspo_token(), name="gspo", mode="seq-mean-token-mean", low=3e-4, high=4e-4),
    "gspo, one ratio a rollout": Pair(
        ours=gspo(), name="gspo", mode="seq-mean-token-mean", low=3e-4, high=4e-4
    ),
    "gspo, wide": Pair(
        ours=gspo_token(eps_low=0.2, eps_high=0.3, aggregate=token_mean),
        name="gspo", mode="token-mean", high=0.3,
    ),
    "cispo": Pair(ours=cispo(eps_low=0.2), name="cispo", mode="token-mean"),
    "cispo, no lower bound": Pair(ours=cispo(), name="cispo", mode="token-mean", low=1.0),
    "gmpo": Pair(ours=gmpo(), name="geo_mean", mode="not read", low=0.4, high=0.4),
    "sapo": Pair(ours=sapo(), name="sapo", mode="not read"),
    "dppo_tv": Pair(ours=dppo_tv(), name="dppo_tv", mode="token-mean", cap=20.0),
    "dppo_kl": Pair(ours=dppo_kl(), name="dppo_kl", mode="token-mean", low=0.05, high=0.05, cap=20.0),
    "reinforce": Pair(ours=rloo(), name="gpg", mode="seq-mean-token-sum"),
    "kimi": Pair(ours=kimi(tau=0.3), name="dro", mode="token-mean", beta=0.3),
}  # fmt: skip


def fitted(batch: Batch, distance: float, seed: int) -> tuple[Batch, Tensor]:
    """A policy some way from pi_old, all of it log-probs; DPPO's mu is verl's old policy."""
    batch = dataclasses.replace(batch, behaviour_log_probs=batch.old_log_probs)
    return batch, policy_near(batch, distance, seed).clamp(max=-1e-3)


def compare(pair: Pair, loss: Tensor, wanted: Tensor, leaves: list[Tensor]) -> None:
    # Rollouts cancel in a loss, so what the 1e-8 does is no relative error of it.
    by_rollout = pair.mode in ("seq-mean-token-mean", "not read")
    tolerance = {"rtol": 3e-8, "atol": 3e-8} if by_rollout else {"rtol": 1e-12, "atol": 1e-13}
    torch.testing.assert_close(loss, wanted, **tolerance)
    loss.backward()
    wanted.backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, **tolerance)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("distance", [0.0, 1e-4, 0.05, 0.5, 3.0])
def test_loss_and_gradient(name: str, seed: int, distance: float):
    pair = PAIRS[name]
    batch, policy = fitted(paired(seed), distance, seed)
    advantages = pair.ours.advantage(batch)
    leaves = [policy.clone().requires_grad_() for _ in range(2)]
    loss = pair.ours.loss(leaves[0], batch, advantages=advantages, total=pair.ours.total(batch))
    compare(pair, loss, pair.theirs(leaves[1], batch, advantages), leaves)


@pytest.mark.parametrize("name", [n for n in PAIRS if not n.startswith(("gspo", "gmpo"))])
def test_a_ratio_beyond_twenty_nats(name: str):
    pair = PAIRS[name]
    batch, policy = fitted(paired(0), 3.0, 0)
    batch = dataclasses.replace(batch, old_log_probs=batch.old_log_probs - 40.0)
    batch = dataclasses.replace(batch, behaviour_log_probs=batch.old_log_probs)
    advantages = pair.ours.advantage(batch)
    leaves = [policy.clone().requires_grad_() for _ in range(2)]
    loss = pair.ours.loss(leaves[0], batch, advantages=advantages, total=pair.ours.total(batch))
    compare(pair, loss, pair.theirs(leaves[1], batch, advantages), leaves)


def test_gspo_saturates_at_ten_nats_there_and_twenty_here():
    batch, _ = fitted(paired(0), 0.0, 0)
    policy = batch.old_log_probs + 15.0
    advantages = -batch.action_mask.double()
    pair = PAIRS["gspo"]
    ours = pair.ours.loss(policy, batch, advantages=advantages, total=pair.ours.total(batch))
    assert ours.item() == pytest.approx(math.exp(15.0), rel=1e-7)
    assert pair.theirs(policy, batch, advantages).item() == pytest.approx(math.exp(10.0), rel=1e-7)


def test_gmpo_counts_a_rollout_without_tokens_there_but_not_here():
    batch, policy = fitted(paired(0, empty_row=True), 0.5, 0)
    pair = PAIRS["gmpo"]
    advantages = pair.ours.advantage(batch)
    ours = pair.ours.loss(policy, batch, advantages=advantages, total=pair.ours.total(batch))
    torch.testing.assert_close(6 / 7 * ours, pair.theirs(policy, batch, advantages), rtol=3e-8, atol=0.0)


def test_the_cap_on_dppo_is_three_unless_configured():
    # The loss asks for 20 where no cap is configured, and its configuration always has one: 3.
    assert configs.ActorConfig(
        strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1
    ).get("clip_ratio_c", 20.0) == 3.0  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mismatch", [0.05, 1.0])
@pytest.mark.parametrize(
    ("level", "correction"), [("token", token_truncated(2.0)), ("sequence", sequence_truncated(2.0))]
)
@pytest.mark.parametrize(
    ("mode", "aggregate"),
    [("token-mean", token_mean), ("seq-mean-token-mean", sequence_mean), ("seq-mean-token-sum", constant(1))],
)
def test_truncated_importance_sampling_in_the_loss(seed, mismatch, level, correction, mode, aggregate):
    batch = paired(seed, mismatch=mismatch)
    pair = Pair(
        ours=grpo_corrected(correction, eps_low=0.2, eps_high=0.28, aggregate=aggregate),
        name="vanilla", mode=mode, high=0.28,
    )  # fmt: skip
    log_ratio = batch.old_log_probs - batch.behaviour_log_probs
    weights, _ = corrections.compute_rollout_correction_weights(
        log_ratio, batch.action_mask.double(), level, 2.0
    )
    advantages = pair.ours.advantage(batch)
    policy = batch.old_log_probs + policy_near(batch, 0.3, seed) - batch.behaviour_log_probs
    leaves = [policy.clone().requires_grad_() for _ in range(2)]
    loss = pair.ours.loss(leaves[0], batch, advantages=advantages, total=pair.ours.total(batch))
    compare(pair, loss, pair.theirs(leaves[1], batch, advantages, weights=weights), leaves)


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean"])
@pytest.mark.parametrize("seed", range(4))
def test_rejection_leaves_their_divisor_and_ours_if_kept_only(mode: str, seed: int):
    # Their mask replaces the batch's, so that every mean runs over what is kept: `kept_only` here.
    batch = paired(seed, mismatch=1.5)
    mask = batch.action_mask
    kept, _ = corrections.compute_rollout_rejection_mask(
        batch.old_log_probs - batch.behaviour_log_probs, mask.double(), "seq_sum_k1", "0.5_2.0"
    )
    assert 0 < kept.sum() < mask.sum()
    band = sequence_band(floor=0.5, ceiling=2.0, weight=lambda b: b.action_mask.double())
    aggregate = {"token-mean": token_mean, "seq-mean-token-mean": sequence_mean}[mode]
    ours = grpo_corrected(band, eps_low=0.2, eps_high=0.28, aggregate=aggregate, kept_only=True)
    pair = Pair(ours=ours, name="vanilla", mode=mode, high=0.28)
    advantages = ours.advantage(batch)
    leaves = [policy_near(batch, 0.3, seed).requires_grad_() for _ in range(2)]
    loss = ours.loss(leaves[0], batch, advantages=advantages, total=ours.total(batch))
    compare(pair, loss, pair.theirs(leaves[1], batch, advantages, mask=kept), leaves)
