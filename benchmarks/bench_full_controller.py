"""Which share of a step is the controller's own, on real engines and a real trainer?

    make bench, or: .venv-full/bin/python -m benchmarks.bench_full_controller [--updates 14]

A run of `policylag full tiny-cpu` in this process. Two numbers: the share of the trainer's time in which it
neither works nor waits for anything that is named (gaps between its recorded intervals), and the processor
time of this process (requests, answers, groups, journal, messages) as a share of each step's wall time. The
second overlaps with decoding and training. The aim is 2 % of a step for the first.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

WARM_UP: Final = 3
"""Updates that are not counted."""


def gaps(facts: Iterable[Mapping[str, Any]], from_s: float) -> tuple[float, float]:
    """Seconds between the trainer's intervals, and from the first of them to the end of the last.

    Args:
        facts: of a journal.
        from_s: earlier ones are left out.
    """
    spells = sorted(
        (fact["start_s"], fact["end_s"])
        for fact in facts
        if fact["kind"] == "interval" and fact["resource"] == "trainer" and fact["start_s"] >= from_s
    )
    between = sum(max(0.0, later[0] - earlier[1]) for earlier, later in pairwise(spells))
    return between, spells[-1][1] - spells[0][0]


async def measure(folder: Path, updates: int) -> str:
    from full_runs.configs.ready import READY
    from full_runs.controller.course import JOURNAL
    from full_runs.controller.journal import lines
    from full_runs.run import run_config

    ready = READY["tiny-cpu"]()
    config = ready.model_copy(update={"updates": updates, "measure_every": 10**6})
    seen: list[tuple[float, float]] = []
    await run_config(
        config,
        out=folder,
        arm="bench",
        say=lambda _: None,
        told=lambda *_: seen.append((time.perf_counter(), time.process_time())),
    )
    counted = list(pairwise(seen[WARM_UP:]))
    steps_s = [later[0] - earlier[0] for earlier, later in counted]
    shares = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in counted]
    facts = list(lines(folder / JOURNAL))
    warm_s = next(
        fact["train_end_s"] for fact in facts if fact["kind"] == "update" and fact["version"] == WARM_UP
    )
    between_s, span_s = gaps(facts, warm_s)
    low, middle, high = statistics.quantiles(shares, n=4, method="inclusive")
    return (
        f"controller: {len(steps_s)} steps of {statistics.median(steps_s):.2f} s (median); trainer's time"
        f" without a name {between_s / span_s:.2%}; processor of this process {middle:.1%} of a step"
        f" [{low:.1%}, {high:.1%}], {statistics.median(steps_s) * middle * 1000:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=14)
    args = parser.parse_args()
    if importlib.util.find_spec("vllm") is None:
        print("full controller: not measured, vLLM is not installed here (make setup-full)")
        return
    warnings.simplefilter("ignore")  # what vLLM's dependencies deprecate is theirs to mend
    with tempfile.TemporaryDirectory() as folder:
        print(asyncio.run(measure(Path(folder), args.updates)))


if __name__ == "__main__":
    main()
