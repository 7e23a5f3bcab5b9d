"""What must be known of a system to read its log and to name the change?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What to change, in the words of one system."""

    lag: str
    """The data gets too old."""
    drift: str
    """Ratios spread: sampling and training policies are too far apart."""
    mismatch: str
    """Engine and trainer disagree about the same weights."""
    clipping: str
    """Too many tokens lose their gradient."""
    starving: str
    """The trainer waits for data."""
    waiting: str
    """The engines wait for the trainer."""
    length_bias: str
    """What is dropped is longer than what is trained."""
    truncation: str
    """Responses end at the limit."""
    no_signal: str
    """Groups with equal rewards."""
    temperature: str
    """Log-probs of sampling and training are of different distributions."""
    collapse: str
    """The policy breaks."""
    resume: str
    """Counters went back, or rows are there twice."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One system's log."""

    name: str
    lag: str
    """What a lag of 1 is, and of which token."""
    metrics: Mapping[str, str]
    """Its name for a quantity -> the column here (`analysis.systems.columns`).

    A log is read by all of its names and written by the first that a column has: the one in use.
    """
    changes: Changes
    negated: frozenset[str] = field(default_factory=frozenset)
    """Its names whose sign is the other one here."""
    prefixes: tuple[str, ...] = ()
    """Prefixes that a logger puts before all its names."""
