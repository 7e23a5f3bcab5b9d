"""Does the roofline meet what was measured? Within a factor of two, or the row says by how much not.

A roofline knows neither kernels, nor parallel layouts, nor load balance, and the shares reached (`Achieved`)
are round numbers, chosen once for all rows. A factor of two is what shares between 0.2 and 0.8 about a middle
of 0.4 give; what is wanted is the right side of decisions that differ by more.

Not used: rows whose tokens or batch are not published (NeMo-RL), or which do not balance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from simulator.planner import roofline
from simulator.planner.accelerators import H20, H800, Achieved
from simulator.planner.roofline import FORWARD, FORWARD_BACKWARD, Model
from simulator.validation.row import Row

VERL: Final = "verl, fully async documentation"
DORA: Final = "DORA, arXiv 2604.26256"

QWEN_7B: Final = Model(parameters_total=7.6e9, parameters_active=7.6e9, layers=28, kv_bytes_a_token=57_344)
QWEN_32B: Final = Model(
    parameters_total=32.8e9, parameters_active=32.8e9, layers=64, kv_bytes_a_token=262_144
)
QWEN_235B_A22B: Final = Model(
    parameters_total=235e9, parameters_active=22e9, layers=94, kv_bytes_a_token=192_512
)

LOG_PROBS_AND_UPDATE_S: Final = (
    # what, seconds of old (or reference) log-probs, seconds of the update
    ("7B, 32 H20, colocated", 107.71, 269.80),
    ("7B, 64 H20, colocated", 70.26, 133.41),
    ("7B, 128 H20, colocated", 53.92, 113.81),
    ("7B, synchronous, FSDP2", 88.0, 286.0),
    ("7B, one-step-off, FSDP2", 108.0, 337.0),
    ("30B, 96:32, reference", 50.05, 206.63),
)
UPDATES_S: Final = (
    # what, GPUs and seconds of an update, twice
    ("7B colocated", (32, 269.80), (64, 133.41)),
    ("7B colocated", (64, 133.41), (128, 113.81)),
    ("7B, trainer of an async run, staleness .5", (32, 156.98), (64, 113.16)),
)
PUSHES_S: Final = (
    ("7B", QWEN_7B, 0.02, 0.12),
    ("235B", QWEN_235B_A22B, 23.7, 58.6),
)
"""The 30B's, 4.4 to 15.8 s, is where `Achieved.network_experts` comes from, and tests nothing."""


def rows() -> Iterator[Row]:
    """Every comparison; nothing is fitted to them but what is said."""
    yield from forward_shares()
    yield from more_gpus()
    yield from pushes()
    yield from dora()


def forward_shares() -> Iterator[Row]:
    """A pass for log-probs costs a third of an update, whatever share of the peak both reach."""
    for what, log_probs_s, update_s in LOG_PROBS_AND_UPDATE_S:
        yield within_factor(
            2,
            about=f"log-probs over update, {what}",
            source=VERL,
            expected=log_probs_s / update_s,
            simulated=FORWARD / FORWARD_BACKWARD,
        )


def more_gpus() -> Iterator[Row]:
    """Seconds of the same update on twice the GPUs: half, in a roofline."""
    for what, (fewer, fewer_s), (more, more_s) in UPDATES_S:
        yield within_factor(
            2,
            about=f"update on {more} GPUs over {fewer}, {what}",
            source=VERL,
            expected=more_s / fewer_s,
            simulated=fewer / more,
        )


def pushes() -> Iterator[Row]:
    """Seconds of a weight push from eight GPUs of a node, beside the geometric middle of the range."""
    for what, model, low_s, high_s in PUSHES_S:
        yield within_factor(
            2,
            about=f"seconds of a weight push, {what}, {low_s:g} to {high_s:g}",
            source=VERL,
            expected=math.sqrt(low_s * high_s),
            simulated=roofline.push_s(model, H20, Achieved(), senders=8),
        )


def dora() -> Iterator[Row]:
    """32B on 64 H800: 512 x 16 answers of mean 2,400 and cap 30,720 tokens, a step of 22.9 minutes.

    65 % of it, 14.9 minutes, is rollout; the rest trains (three passes of log-probs and update: 6 + 2 + 2
    FLOPs a parameter, *choice*; prompts, not published, count for nothing). Of the rollout only the longest
    answer is computed, decoding alone at the end: a lower bound.
    """
    minutes, share = 14.9, 0.65
    achieved, tokens = Achieved(), 512 * 16 * 2400
    flops = FORWARD_BACKWARD + 2 * FORWARD
    s_per_token = roofline.trainer_s_per_token(QWEN_32B, H800, achieved, gpus=64, flops_a_parameter=flops)
    yield within_factor(
        2,
        about="seconds of training, 32B, 64 H800",
        source=DORA,
        expected=60 * minutes * (1 - share) / share,
        simulated=tokens * s_per_token,
    )
    gpus = roofline.gpus_an_engine(QWEN_32B, H800, achieved)
    engine = roofline.decoding(QWEN_32B, H800, achieved, gpus=gpus, rollouts=1)
    yield below(
        about="seconds of the longest answer alone, against the whole rollout, 32B, 64 H800",
        source=DORA,
        expected=60 * minutes,
        simulated=30_720 * (engine.step_fixed_s + engine.step_s_per_rollout),
    )


def within_factor(factor: float, *, about: str, source: str, expected: float, simulated: float) -> Row:
    """Holds iff each is at most `factor` times the other."""
    return Row(
        about=about,
        source=source,
        expected=expected,
        simulated=simulated,
        wanted=f"within a factor of {factor:g}",
        holds=1 / factor <= simulated / expected <= factor,
        n=1,
    )


def below(*, about: str, source: str, expected: float, simulated: float) -> Row:
    """Holds iff the lower bound is one."""
    return Row(
        about=about,
        source=source,
        expected=expected,
        simulated=simulated,
        wanted="below",
        holds=simulated < expected,
        n=1,
    )
