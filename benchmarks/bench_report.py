"""How long does the report of a large study take, and how much memory?

    python -m benchmarks.bench_report [--runs 100] [--updates 1000]

Runs of an asynchronous pipeline (one schedule, 128 rollouts an update, a learning curve of its own each) are
written as a study of ten arms, and the page is made of them in a process of its own. Seconds are the
processor's. The bars, for 100 runs of 1,000 updates: 30 s and 1 GB.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.report.build import render, report_for_study
from simulator.experiments import single
from simulator.pipeline.pipeline import run as simulate

ARMS = 10
SEEN = ("masked_fraction", "flat_fraction", "entropy", "ess_token", "k1", "k3")


def write_study(folder: Path, runs: int, updates: int) -> None:
    """The same schedule under every run: what differs is what was learned."""
    log = simulate(single(updates=updates, rollouts_per_update=128)).log
    first = folder / "first"
    log.write(first, meta={"arm": "arm 0", "seed": 0, "clock": "simulated"})
    table = pq.read_table(first / "updates.parquet")
    rng = np.random.default_rng(0)
    for i in range(runs):
        own = folder / "cells" / f"run-{i:03}"
        own.mkdir(parents=True)
        for name in ("rollouts", "segments", "intervals"):
            os.link(first / f"{name}.parquet", own / f"{name}.parquet")
        rise = np.linspace(0.1, 0.5 + 0.04 * (i % ARMS), updates) + rng.normal(0, 0.01, updates)
        seen = {"accuracy": rise, **{name: rng.random(updates) for name in SEEN}}
        with_metrics = table
        for name, values in seen.items():
            with_metrics = with_metrics.append_column(name, pa.array(values))
        pq.write_table(with_metrics, own / "updates.parquet")
        (own / "meta.json").write_text(
            f'{{"arm": "arm {i % ARMS}", "seed": {i // ARMS}, "clock": "simulated"}}'
        )
    shutil.rmtree(first)


def report(folder: Path) -> tuple[float, float, int]:
    """Core-seconds, the largest resident memory in GB, and the length of the page."""
    start_s = time.process_time()
    page = render(report_for_study(folder))
    used_s = time.process_time() - start_s
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return used_s, peak / 1e9, len(page)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--updates", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder)
        write_study(study, args.runs, args.updates)
        # A process of its own, so that the memory is the report's and not that of what wrote the runs.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            used_s, peak_gb, letters = pool.apply(report, (study,))
    print(
        f"report over {args.runs} runs x {args.updates:,} updates: {used_s:.1f} core-seconds,"
        f" {peak_gb:.2f} GB, a page of {letters / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
