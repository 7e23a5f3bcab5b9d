"""Rollout-correction weights and masks of verl 0.9.1, in float64. https://pypi.org/project/verl/.

Measured: weights and masks are equal to the last bit; weights over their mean differ by 1e-8, which verl adds
to what it divides by.
"""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from algorithms.correction import Correction, sequence_truncated, token_truncated, unweighted
from algorithms.estimator import Estimator
from algorithms.rejection import geometric_band, k3_below, sequence_band, token_band, veto
from algorithms.rollout import Batch
from algorithms.tis import over_rollouts, over_tokens, sequence_tis, token_tis
from tests.oracles.peers import paired, peer

pytestmark = pytest.mark.oracles
helper = peer("verl.trainer.ppo.rollout_corr_helper")

MISMATCHES = [1e-3, 0.3, 2.0, 40.0]


def log_ratio(batch: Batch) -> Tensor:
    assert batch.old_log_probs is not None
    return batch.old_log_probs - batch.behaviour_log_probs


def weights(batch: Batch, level: str, threshold: str | float, *, normalise: bool = False) -> Tensor:
    return helper.compute_rollout_correction_weights(
        log_ratio(batch), batch.action_mask.double(), level, threshold, normalise
    )[0]


def kept(batch: Batch, option: str, threshold: str | float) -> Tensor:
    return helper.compute_rollout_rejection_mask(
        log_ratio(batch), batch.action_mask.double(), option, threshold
    )[0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mismatch", MISMATCHES)
@pytest.mark.parametrize(
    ("ours", "level", "threshold"),
    [
        (token_truncated(2.0), "token", 2.0),
        (token_truncated(0.8), "token", 0.8),
        (sequence_truncated(2.0), "sequence", 2.0),
        (sequence_truncated(1e12), "sequence", 1e12),
        (token_band(floor=0.5, ceiling=2.0), "token", "0.5_2.0"),
        (token_band(floor=0.5, ceiling=5.0), "token", "0.5_5.0"),
        (sequence_band(floor=0.5, ceiling=2.0), "sequence", "0.5_2.0"),
    ],
    ids=["token", "token .8", "sequence", "sequence, no cap", "icepop", "icepop wide", "sequence mis"],
)
def test_weights(ours: Correction, level: str, threshold: str | float, mismatch: float, seed: int):
    batch = paired(seed, mismatch=mismatch, empty_row=seed % 2 == 1)
    got = ours(batch)
    if not got.any():
        # Nothing is left: zero weights here, a division by zero in a metric there.
        with pytest.raises(ZeroDivisionError):
            weights(batch, level, threshold)
        return
    torch.testing.assert_close(got, weights(batch, level, threshold), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mismatch", MISMATCHES)
@pytest.mark.parametrize(
    ("ours", "level"),
    [(token_tis(normalise=over_tokens), "token"), (sequence_tis(normalise=over_rollouts), "sequence")],
    ids=["token", "sequence"],
)
def test_weights_over_their_mean(ours: Estimator, level: str, mismatch: float, seed: int):
    batch = paired(seed, mismatch=mismatch, empty_row=seed % 2 == 1)
    fixed = ours.fixed(batch.behaviour_log_probs, batch, ours.advantage(batch))
    assert fixed.correction is not None
    wanted = weights(batch, level, 2.0, normalise=True)
    torch.testing.assert_close(fixed.correction(batch), wanted, rtol=2e-8, atol=0.0)


def test_a_mean_below_a_hundred_millionth_divides_nothing_there():
    # Ours divides by any mean but zero, so a batch that pi_old would never choose takes a full step.
    batch = paired(0)
    batch = dataclasses.replace(batch, old_log_probs=batch.behaviour_log_probs - 30.0)
    ours = token_tis(normalise=over_tokens)
    fixed = ours.fixed(batch.behaviour_log_probs, batch, ours.advantage(batch))
    assert fixed.correction is not None
    tokens = batch.action_mask.double()
    torch.testing.assert_close(fixed.correction(batch), tokens)
    torch.testing.assert_close(weights(batch, "token", 2.0, normalise=True), math.exp(-20.0) * tokens)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mismatch", MISMATCHES)
@pytest.mark.parametrize(
    ("ours", "option", "threshold"),
    [
        # Their bounds are on mu / pi_old (k1 is minus the log-ratio), ours as the papers print them.
        (token_band(floor=0.5, ceiling=4.0, weight=unweighted), "token_k1", "0.25_2.0"),
        (sequence_band(floor=0.5, ceiling=2.0, weight=unweighted), "seq_sum_k1", "0.5_2.0"),
        (sequence_band(floor=0.2, ceiling=2.0, weight=unweighted), "seq_sum_k1", "0.5_5.0"),
        (geometric_band(floor=0.999, ceiling=1.001), "seq_mean_k1", f"{1 / 1.001}_{1 / 0.999}"),
        (geometric_band(floor=0.8, ceiling=1.5), "seq_mean_k1", f"{1 / 1.5}_{1 / 0.8}"),
        (k3_below(0.01), "seq_mean_k3", 0.01),
        (k3_below(0.5), "seq_mean_k3", 0.5),
    ],
    ids=["token", "sequence", "sequence lopsided", "geometric", "geometric wide", "k3", "k3 wide"],
)
def test_what_is_kept(ours: Correction, option: str, threshold: str | float, mismatch: float, seed: int):
    batch = paired(seed, mismatch=mismatch, empty_row=seed % 2 == 1)
    torch.testing.assert_close(ours(batch), kept(batch, option, threshold), rtol=0.0, atol=0.0)


def test_a_lopsided_band_of_theirs_is_turned_over():
    # A ratio pi_old / mu of three is inside [0.5, 4] here, and outside "0.5_4.0" there.
    batch = paired(0)
    batch = dataclasses.replace(
        batch, old_log_probs=batch.behaviour_log_probs + torch.tensor(3.0, dtype=torch.float64).log()
    )
    tokens = batch.action_mask.double()
    band = token_band(floor=0.5, ceiling=4.0, weight=unweighted)
    torch.testing.assert_close(band(batch), tokens)
    torch.testing.assert_close(kept(batch, "token_k1", "0.5_4.0"), 0 * tokens)
    torch.testing.assert_close(kept(batch, "token_k1", "0.25_2.0"), tokens)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mismatch", [0.3, 2.0, 8.0])
def test_veto_is_their_largest_k2_where_no_ratio_exceeds_one(mismatch: float, seed: int):
    # The one-sided veto of earlier versions is gone in 0.9.1; its successor also drops rollouts for ratios
    # far above one.
    batch = paired(seed)
    below = batch.behaviour_log_probs - mismatch * (batch.rewards + 1.0).abs()
    batch = dataclasses.replace(batch, old_log_probs=below)
    minimum = 0.05
    wanted = kept(batch, "seq_max_k2", 0.5 * math.log(minimum) ** 2)
    torch.testing.assert_close(veto(minimum)(batch), wanted, rtol=0.0, atol=0.0)
