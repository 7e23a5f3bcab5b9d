"""How much faster do two workers run a study than one?

    python -m benchmarks.bench_workers [--cells 8] [--updates 152] [--repeats 2]

Equal cells of modular addition through `run_cells`, as a study runs them: in this process, and in two that
have started before anything is timed. These seconds are the wall's, so they mean something on two idle cores
only; what share of a core one process got just before is printed beside. The aim is 1.8 times.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.turns import best_seconds
from simulator.experiments import learning
from simulator.studies.cells import Cell, run_cell
from simulator.studies.runner import Outcome, run_cells


def cells(count: int, updates: int) -> list[Cell]:
    return [Cell(arm="grpo", config=learning("grpo", updates=updates, seed=seed)) for seed in range(count)]


def run_all(work: list[Cell], jobs: int) -> None:
    """In a folder of their own, so that nothing is found done."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_cells(work, Path(folder), run=run_cell, jobs=jobs, on_end=lambda _: None)
    failed: list[Outcome] = [outcome for outcome in outcomes if outcome.error is not None]
    assert not failed, failed[0].error


def core_share() -> float:
    """Processor's seconds over the wall's, of some arithmetic here and now: 1 on an idle core."""
    wall_s, core_s = time.perf_counter(), time.process_time()
    while time.process_time() - core_s < 0.3:
        sum(range(1000))
    return (time.process_time() - core_s) / (time.perf_counter() - wall_s)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--updates", type=int, default=152)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    work = cells(args.cells, args.updates)
    for jobs in (1, 2):  # imports, and the start of the processes
        run_all(cells(2, 4), jobs)
    share = core_share()
    one_s, two_s = best_seconds(partial(run_all, work, 1), partial(run_all, work, 2), repeats=args.repeats)
    print(
        f"{args.cells} cells: one worker {one_s:.1f} s, two {two_s:.1f} s, ratio {one_s / two_s:.2f}"
        f" ({os.cpu_count()} cores, of which one process got {share:.2f} before)"
    )


if __name__ == "__main__":
    main()
