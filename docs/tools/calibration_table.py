"""How far off was what the simulator foretold? Errors of a calibration a seed, as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from analysis.statistics.intervals import Interval, t_interval
from full_runs.calibrate.foretell import MEASURES, SHARES

BAR: Final = 0.15
"""What the simulator is meant to stay within: of shares in points, of the rest in per cent."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """Of one measure of one part, in one calibration: as `policylag calibrate` has it."""

    seed: int
    part: str
    measure: str
    error: float


def read(seed: int, said: Mapping[str, Any], parts: Mapping[str, str]) -> list[Error]:
    """What a calibration said as JSON.

    Args:
        seed: of the runs.
        parts: what the table calls each part that is foretold, by the calibration's word for it; others are
            left out.
    """
    return [
        Error(seed=seed, part=parts[row["run"]], measure=row["measure"], error=row["error"])
        for row in said["errors"]
        if row["run"] in parts
    ]


def over_seeds(errors: Iterable[Error]) -> dict[tuple[str, str], Interval]:
    """(measure, part) -> mean error with Student's t interval over seeds.

    Raises:
        ValueError: an error is not finite: nothing was measured, so there is nothing to be right about.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for one in errors:
        found.setdefault((one.measure, one.part), []).append(one.error)
    return {where: t_interval(values)[0] for where, values in found.items()}


def table(errors: Sequence[Error]) -> str:
    """A row a measure, a column a part; a sentence that counts what is beyond the bar."""
    means = over_seeds(errors)
    parts = list(dict.fromkeys(one.part for one in errors))
    lines = [f"| | {' | '.join(parts)} |", f"|---{'|--:' * len(parts)}|"]
    for measure, words in MEASURES.items():
        cells = [_cell(means[measure, part], measure) for part in parts]
        lines.append(f"| {_name(measure, words)} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", _beyond(errors)])


def _beyond(errors: Sequence[Error]) -> str:
    seeds = sorted({one.seed for one in errors})
    worst = max(errors, key=lambda one: abs(one.error))
    beyond = sum(abs(one.error) > BAR for one in errors)
    unit = " points" if worst.measure in SHARES else " %"
    n = f"n = {len(seeds)} ({'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))})"
    brackets = "95 % intervals over seeds (Student's t) in brackets" if len(seeds) > 1 else "no interval"
    return (
        f"{n}, {brackets}. Of {len(errors)} single errors {beyond or 'none'} {'is' if beyond == 1 else 'are'}"
        f" beyond {BAR:.0%}, in points for shares; the largest is {100 * worst.error:+.1f}{unit}"
        f" ({_plain(worst.measure)}, {worst.part}, seed {worst.seed})."
    ).replace("15%", "15 %")


def _plain(measure: str) -> str:
    return MEASURES[measure].partition(" (")[0].partition(",")[0]


def _name(measure: str, words: str) -> str:
    return f"{words.partition(' (')[0]} (points)" if measure in SHARES else words


def _cell(own: Interval, measure: str) -> str:
    unit = "" if measure in SHARES else " %"
    if own.n < 2:
        return f"{100 * own.estimate:+.1f}{unit}"
    return f"{100 * own.estimate:+.1f}{unit} [{100 * own.low:+.1f}, {100 * own.high:+.1f}]"
