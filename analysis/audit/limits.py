"""From when on is something a warning, and from when on a problem? Every number here is a *choice*.

They are set so that runs which learn well stay below them with room: public recipes clip or mask a few per
cent of tokens, and engines differ from trainers by some thousandths of a nat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

Pair: TypeAlias = tuple[float, float]
"""A warning from the first value on, a problem from the second."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the checks compare with."""

    lag_bound: float | None = None
    """Configured bound of the lag, in the system's versions; None if it is not known."""
    fewest_updates: int = 16
    """Below it there is no trend."""
    start_up: float = 0.25
    """First share of the updates that a trend leaves out: pipelines fill, and warm-up ends."""
    monotone: float = 0.8
    """Rank correlation with time from which block means are taken to rise or to fall."""
    lag_growth: Pair = (1.3, 2.0)
    """Late over early lag."""
    ess: Pair = (0.5, 0.1)
    """Effective sample size as a share, below which."""
    ess_fall: float = 0.7
    """Late over early effective sample size, below which it falls."""
    kl: Pair = (0.1, 0.5)
    """Divergence of behaviour and trainer, in nats a token."""
    mismatch: Pair = (0.01, 0.1)
    """The same at lag 0: engine against trainer."""
    correlation: Pair = (0.98, 0.9)
    """Of the probabilities of engine and trainer, below which."""
    clipped: Pair = (0.2, 0.5)
    """Share of tokens without a gradient."""
    idle: Pair = (0.3, 0.7)
    """Share of a step spent waiting."""
    shorter: Pair = (0.9, 0.75)
    """Trained over generated mean length, below which."""
    dropped: Pair = (0.1, 0.5)
    """Share of what was generated that is dropped for its age."""
    truncated: Pair = (0.2, 0.5)
    """Share of responses cut at the limit."""
    no_signal: Pair = (0.6, 0.9)
    """Share of groups with equal rewards."""
    temperature: Pair = (0.05, 0.2)
    """How far the slope of behaviour against trainer log-probs is from 1."""
    ratio_mean: Pair = (0.1, 0.5)
    """How far the mean ratio is from 1."""
    misplaced: Pair = (0.01, 0.1)
    """Share of rollouts whose reward is not on the last counted token."""
    repeated: Pair = (0.25, 0.75)
    """Share of rollouts that copy another of their update."""
    again: Pair = (0.01, 0.1)
    """Share of rollouts that an earlier update trained already."""
    spike: float = 10.0
    """Gradient norm over its running median."""
    spikes: Pair = (0.0, 0.05)
    """Share of updates with a spike, above which."""
    collapse_share: float = 0.6
    """Reward over its running maximum, below which it is down."""
    collapse_updates: int = 10
    """Updates that it must stay down for, or a tenth of the log if that is more."""
    entropy_fall: float = 0.5
    """Late over early entropy, below which it falls."""
    reward_fall: float = 0.9
    """Late over best reward, below which it falls with the entropy."""
    ballistic: float = 1.5
    """Exponent of divergence against lag from which on drift has a direction."""
