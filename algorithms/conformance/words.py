"""Verdicts for people to read and for programs to parse. Loads neither torch nor hypothesis by itself."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from algorithms.conformance.check import Counterexample, Verdict


def verdict_text(verdict: Verdict) -> str:
    """One line; below it, if the law failed, the smallest counterexample."""
    line = f"{'ok   ' if verdict.holds else 'FAILS'} {verdict.law:30} {verdict.says}"
    if verdict.holds:
        return line + (f" ({verdict.refused} batches refused)" if verdict.refused else "")
    if verdict.counterexample is None:
        return f"{line}\n      {verdict.why}"
    return "\n".join([line, *(f"      {detail}" for detail in _details(verdict.counterexample))])


def verdicts_text(verdicts: Iterable[Verdict]) -> str:
    """All of them, a line a law."""
    return "\n".join(verdict_text(verdict) for verdict in verdicts)


def verdicts_json(verdicts: Sequence[Verdict]) -> str:
    """One object; what is not finite is written as the string nan, inf or -inf."""
    laws = [_finite(dataclasses.asdict(verdict)) for verdict in verdicts]
    return json.dumps({"holds": all(verdict.holds for verdict in verdicts), "laws": laws}, indent=2)


def _details(found: Counterexample) -> Iterable[str]:
    rows = len(found.action_mask)
    yield f"smallest batch found: {rows} rollout{'s' * (rows > 1)}"
    for row, mask in enumerate(found.action_mask):
        parts = [
            f"mask {_row(mask)}",
            f"log-ratio {_row(found.log_ratios[row])}",
            f"log pi {_row(found.log_probs[row])}",
            f"reward {found.rewards[row]:g}",
        ]
        if found.old_log_ratios[row] != found.log_ratios[row]:
            parts.insert(2, f"to pi_old {_row(found.old_log_ratios[row])}")
        if not isinstance(found.advantages, str):
            parts.append(f"advantage {_row(found.advantages[row])}")
        ended = ", truncated" if found.truncated[row] else ""
        yield f"  rollout {row} (group {found.group_ids[row]}{ended}): {'; '.join(parts)}"
    if isinstance(found.advantages, str):
        yield f"  advantages: {found.advantages}"
    yield found.what
    yield f"  expected {_value(found.expected)}"
    yield f"  got      {_value(found.got)}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return _row(value) if not any(isinstance(v, list) for v in value) else " ".join(map(_value, value))
    return f"{value + 0.0:.6g}" if isinstance(value, float) else str(value)


def _row(numbers: Sequence[float]) -> str:
    return "[" + " ".join(f"{number + 0.0:.6g}" for number in numbers) + "]"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
