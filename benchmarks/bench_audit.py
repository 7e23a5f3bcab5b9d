"""How fast is an audit, and does its memory grow with the log?

    python -m benchmarks.bench_audit [--megabytes 20 100] [--sort metrics|rollouts]

Each log is audited by `policylag audit` in a process of its own, whose peak resident memory is what the
operating system says at its end; the command's own (`audit --help`) is printed beside it. Aims: the peak of
the larger log over that of the smaller at most 1.1; a gigabyte in two minutes of a core.

- metrics: verl's file logger, 60 metrics an update, of which the audit knows 13.
- rollouts: verl's rollout files, 128 rollouts an update with answers of 400 words.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import policylag

KNOWN = (
    "training/off_policy/trajectory_staleness_worst/mean",
    "training/off_policy/trajectory_staleness_worst/max",
    "rollout_corr/kl",
    "rollout_corr/k3_kl",
    "rollout_corr/rollout_is_eff_sample_size",
    "actor/pg_clipfrac",
    "actor/ppo_kl",
    "actor/entropy",
    "actor/grad_norm",
    "actor/pg_loss",
    "critic/score/mean",
    "response_length/mean",
    "timing_s/step",
)


def metrics() -> Iterator[str]:
    rng = random.Random(0)
    names = [*KNOWN, *(f"perf/of_mine_{i}" for i in range(60 - len(KNOWN)))]
    some = [json.dumps({name: rng.uniform(0.1, 0.2) for name in names}) for _ in range(500)]
    for step in itertools.count(1):
        yield f'{{"step": {step}, "data": {some[step % 500]}}}'


def rollouts() -> Iterator[str]:
    rng = random.Random(0)
    words = [f"word{j}" for j in range(1000)]
    some = [" ".join(rng.choices(words, k=400)) for _ in range(500)]
    for i in itertools.count():
        record = {"input": f"prompt {i // 8}", "score": i % 2, "step": 1 + i // 128}
        yield f'{json.dumps(record)[:-1]}, "output": "{i} {some[i % 500]}"}}'


SORTS: dict[str, Callable[[], Iterator[str]]] = {"metrics": metrics, "rollouts": rollouts}


def write(path: Path, lines: Iterator[str], size: int) -> None:
    with open(path, "w") as stream:
        written = 0
        while written < size:
            written += stream.write(next(lines) + "\n")


def audit(*words: str) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak MB of `policylag audit`, in this process."""
    start, used = time.perf_counter(), time.process_time()
    try:
        with redirect_stdout(StringIO()):
            assert policylag.main(["audit", *words]) == 0
    except SystemExit:
        pass  # --help
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return time.perf_counter() - start, time.process_time() - used, peak_mb


def alone(*words: str) -> tuple[float, float, float]:
    """The same in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(audit, words)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--sort", choices=SORTS)
    asked = parser.parse_args()
    *_, bare = alone("--help")
    print(f"the command alone: {bare:.0f} MB")
    for sort in [asked.sort] if asked.sort else SORTS:
        peaks = []
        for megabytes in asked.megabytes:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "log.jsonl"
                write(path, SORTS[sort](), megabytes * 1_000_000)
                wall_s, core_s, peak_mb = alone(str(path), "--json")
            peaks.append(peak_mb)
            print(
                f"{sort}, {megabytes} MB: {wall_s:.1f} s, {core_s:.1f} s of a core, "
                f"{megabytes / core_s:.1f} MB/s of a core, peak {peak_mb:.0f} MB"
            )
        print(f"{sort}: peak of the last over that of the first {peaks[-1] / peaks[0]:.3f}")


if __name__ == "__main__":
    main()
