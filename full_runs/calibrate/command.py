"""`policylag calibrate`: fit the simulator to the first part of a run, foretell its rest and other runs.

Annotations are evaluated eagerly here (no `__future__` import), because tyro makes the flags from them.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import tyro
from rich.table import Table

from analysis.report.terminal import Terminal
from analysis.runs import Run, load_run
from full_runs.calibrate.fit import Constants, fit, part_of
from full_runs.calibrate.foretell import MEASURES, SHARES, Row, compare, foretell, measures
from full_runs.calibrate.recorded import pipeline_of
from full_runs.calibrate.settings import settings, write_lengths
from simulator.command_line import BadInputError, bad_input, run_tyro
from simulator.files import write_text
from simulator.folders import must_be_free


@dataclass(frozen=True)
class Asked:
    """Fit the simulator's speeds, update and push times and lengths to the first part of a recorded run (real
    or simulated), run it with them, and compare with the rest of the run and with other runs."""

    run: tyro.conf.Positional[Path]
    """Folder of the run to fit."""
    speeds_from: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction] = ()
    """Folder of another run on the same machines whose first part the engines' speeds are fitted to as well,
    best one with more or fewer rollouts at once."""
    against: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction] = ()
    """Folder of a run with other settings (concurrency, staleness bound, groups), to be foretold whole."""
    warm_up: float = 0.1
    """Share of the updates that is left out at the start of each run: compilation, an empty pipeline."""
    until: float = 0.5
    """Share of the updates where the part that is fitted ends."""
    out: Path | None = None
    """Folder for config.json (for `policylag simulate --config`), lengths.csv and errors.csv."""
    json: bool = False
    """One JSON object on stdout, and nothing else there."""


def answer(words: list[str]) -> str:
    """What to print.

    Raises:
        BadInputError: no run, no update in a part, a folder in use.
    """
    asked = run_tyro(Asked, words, command="calibrate")
    if not 0 <= asked.warm_up < asked.until < 1:
        raise BadInputError(
            f"calibrate: warm_up ({asked.warm_up}) and until ({asked.until}) must be 0 <= warm_up < until < 1"
        )
    must_be_free(asked.out)
    with bad_input("calibrate: "), tempfile.TemporaryDirectory() as scratch:
        run = load_run(asked.run)
        base = pipeline_of(run)
        part = part_of(run, asked.warm_up, asked.until)
        more = [
            (other, part_of(other, asked.warm_up, asked.until)) for other in map(load_run, asked.speeds_from)
        ]
        constants = fit(run, part, prompt_tokens=max(base.prompt_tokens, 1), more=more)
        folder = asked.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        lengths_csv = folder / "lengths.csv"
        write_lengths(constants, lengths_csv)
        fitted = settings(base, constants, lengths_csv)
        rows: list[Row] = []
        for name, first, last in (("fitted part", asked.warm_up, asked.until), ("rest", asked.until, 1.0)):
            part = part_of(run, first, last)
            seen = measures(run, part, slots=base.slots)
            rows += compare(name, seen, foretell(fitted, part))
        for other in asked.against:
            rows += _foretold(load_run(other), constants, lengths_csv, name=str(other), warm_up=asked.warm_up)
        if asked.out is not None:
            write_text(asked.out / "config.json", fitted.model_dump_json(indent=2) + "\n")
            write_text(asked.out / "errors.csv", pd.DataFrame(_errors(rows)).to_csv(index=False))
    return _json(constants, rows) if asked.json else _text(constants, rows)


def _foretold(run: Run, constants: Constants, lengths_csv: Path, *, name: str, warm_up: float) -> list[Row]:
    """Another run's own settings with these constants."""
    base = pipeline_of(run)
    part = part_of(run, warm_up, 1.0)
    config = settings(base, constants, lengths_csv)
    return compare(name, measures(run, part, slots=base.slots), foretell(config, part))


def _constants(constants: Constants) -> Mapping[str, Any]:
    times = {
        **constants.engine,
        "policy_update_s": constants.policy_update_s,
        "policy_update_s_per_token": constants.policy_update_s_per_token,
        "save_s": constants.save_s,
        "push_s": constants.push_s,
        "checkpoint_s": constants.checkpoint_s,
    }
    return {name: {k: getattr(i, k) for k in ("estimate", "low", "high", "n")} for name, i in times.items()}


def _errors(rows: list[Row]) -> list[dict[str, Any]]:
    return [asdict(row) | {"error": row.error} for row in rows]


def _json(constants: Constants, rows: list[Row]) -> str:
    return json.dumps(
        {
            "part": asdict(constants.part),
            "constants": _constants(constants),
            "mean_tokens": float(constants.tokens.mean()),
            "mean_turns": float(constants.turns.mean()),
            "running": constants.running,
            "errors": _errors(rows),
        }
    )


def _text(constants: Constants, rows: list[Row]) -> str:
    part = constants.part
    times = Table(
        "constant",
        "seconds",
        "95 % interval",
        "n",
        title=f"Fitted to updates {part.after + 1} to {part.until}",
    )
    for name, own in _constants(constants).items():
        times.add_row(
            name, f"{own['estimate']:.3g}", f"[{own['low']:.3g}, {own['high']:.3g}]", f"{own['n']:,}"
        )
    errors = Table("part", "measure", "measured", "foretold", "error", title="Foretold by the simulator")
    for row in rows:
        form = "{:+.1f} points" if row.measure in SHARES else "{:+.1f} %"
        errors.add_row(
            row.run,
            MEASURES[row.measure],
            f"{row.measured:,.3g}",
            f"{row.foretold:,.3g}",
            form.format(100 * row.error),
        )
    low, high = constants.running
    words = (
        f"Turns of {constants.tokens.mean():.1f} tokens on average; {low:.0f} to {high:.0f} rollouts ran on"
        " an engine at once. What is foretold for more or fewer is an extrapolation."
    )
    terminal = Terminal()
    with terminal.capture() as said:
        terminal.print(times, errors, words)
    return said.get().rstrip()
