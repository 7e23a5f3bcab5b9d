"""What would run, and for how long? The missing runs, one a line, then the time; or one JSON object."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Final

from simulator.command_line import StudyOptions, bad_input
from simulator.progress import duration, progress
from simulator.studies.ask import Asked
from simulator.studies.forecast import Forecast, Kind, forecast, kinds
from simulator.studies.runner import missing

METHOD: Final = (
    "Finished runs of a kind (equal but for seed and learning rates) count as they took; else a few updates"
    " are run, the first one's time and then the pace are extended to a whole run, and twice that is"
    " taken for the worst: early updates on an idle machine may be quicker than later ones on a busy one."
    " Starting processes is not counted, and other machines of a cluster are taken to be like this one."
)


def dry_run(asked: Asked) -> str:
    """What a study would run, in words or as JSON; nothing is written.

    Raises:
        BadInputError: a run cannot begin: its warm start does not reach its accuracy, say.
    """
    cells = missing(asked.chosen, asked.out)
    trials = progress(len(kinds(cells)), "trials", silent=asked.options.silent)
    with bad_input("study: "), trials as advance:
        found = forecast(cells, asked.out, jobs=_at_once(asked.options), advance=advance)
    return to_json(found) if asked.options.json else text(found)


def _at_once(options: StudyOptions) -> int:
    """More jobs than processors gain nothing; a cluster's processors are not looked up, but for `--jobs`."""
    processors = os.cpu_count() or 1
    if options.backend == "ray" and options.jobs is not None:
        return options.jobs
    return min(options.jobs or processors, processors)


def text(found: Forecast) -> str:
    """For a reader."""
    if not found.missing:
        return "no run is missing"
    lines = [
        *found.missing,
        "",
        f"{len(found.missing)} runs are missing; with {found.jobs} at once they take about"
        f" {_range(found.seconds, found.seconds_most)}",
        *(
            f"  {kind.runs:4} of {_arms(kind)}: {_range(kind.seconds, kind.seconds_most)} each ({kind.basis})"
            for kind in found.kinds
        ),
    ]
    return "\n".join([*lines, METHOD])


def to_json(found: Forecast) -> str:
    """For a script."""
    return json.dumps(dataclasses.asdict(found) | {"method": METHOD}, allow_nan=False)


def _range(expected_s: float, most_s: float) -> str:
    low, high = duration(expected_s), duration(most_s)
    return low if low == high else f"{low} to {high}"


def _arms(kind: Kind) -> str:
    more = f" and {len(kind.arms) - 3} more arms" if len(kind.arms) > 3 else ""
    return ", ".join(kind.arms[:3]) + more
