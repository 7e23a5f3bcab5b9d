"""How many rollouts a second does the pipeline simulate?

    python -m benchmarks.bench_pipeline [--updates 1500] [--repeats 5] [--million]

- At fixed speed, beside a bare heap loop of the same model. The loop knows no rules, no ledger, no intervals
  and no SimPy, but records the same rollouts, segments and updates, so it is about the least that such a run
  can cost in plain Python. A fifth of its rate is the aim.
- Load-dependent, with the full log: 150,000 rollouts a second on a core of its own is the aim.
- The same with all lengths times 100: cost follows completions, not tokens, so at most 1.5 times as much.
- With prefill, and with keys and values that do not fit.
- `--million`: a million rollouts on 4,096 slots, with the log on disk; aims are 20 s and 500 MB.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.turns import best_seconds
from simulator.config import PipelineConfig, Unbounded
from simulator.pipeline.pipeline import drawn_lengths, run
from simulator.world.decoding import FixedSpeed, LoadDependent
from simulator.world.lengths import LogNormal
from tests.simulator import twin


def bare_loop(config: PipelineConfig) -> None:
    drawn = drawn_lengths(config)
    assert isinstance(config.engine, FixedSpeed)
    twin.simulate(
        (drawn.length_tokens(*divmod(i, config.group_size)) for i in itertools.count()),
        slots=config.slots,
        seconds_per_token=config.engine.seconds_per_token,
        group_size=config.group_size,
        rollouts_per_update=config.rollouts_per_update,
        updates=config.updates,
        update_s=config.policy_update_s,
        push_s=config.push_s,
    )


def pipeline(**changes: Any) -> PipelineConfig:
    """256 slots, the trainer busy 70 % of the time if they decode at 0.02 s a token."""
    fields: dict[str, Any] = {
        "slots": 256,
        "engine": FixedSpeed(seconds_per_token=0.02),
        "rollouts_per_update": 64,
        "policy_update_s": 0.7 * 64 * 20 / 256,
        "lengths": LogNormal(mean_tokens=1000, sd_tokens=1500),
        "staleness": Unbounded(),
    }
    return PipelineConfig(**{**fields, **changes})


def loaded(updates: int, scale: int = 1, **load: Any) -> PipelineConfig:
    """Lengths and the trainer's time `scale` times as long."""
    return pipeline(
        updates=updates,
        engine=LoadDependent(**load),
        prompt_tokens=500 * scale,
        policy_update_s=5.0 * scale,
        lengths=LogNormal(mean_tokens=1000 * scale, sd_tokens=1500 * scale, max_tokens=32_768 * scale),
    )


def million() -> None:
    """Groups of 8 on 8 engines, 2,048 rollouts a batch in four updates."""
    config = pipeline(
        slots=4096,
        engines=8,
        engine=LoadDependent(),
        group_size=8,
        rollouts_per_update=512,
        updates_per_batch=4,
        updates=1956,
        policy_update_s=5.0,
    )
    start = time.perf_counter()
    done = run(config)
    simulated_s = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        done.log.write(Path(folder) / "run")
        written_s = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{done.log.rollouts.num_rows:,} rollouts, {done.log.segments.num_rows:,} segments:"
        f" {simulated_s:.1f} s, with Parquet {written_s:.1f} s, at most {peak_mb:.0f} MB in memory"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--million", action="store_true")
    args = parser.parse_args()
    if args.million:
        million()
        return
    rollouts = args.updates * 64
    for group_size in (1, 8):
        config = pipeline(group_size=group_size, updates=args.updates)
        works = (partial(run, config), partial(bare_loop, config))
        pipeline_s, loop_s = best_seconds(*works, repeats=args.repeats)
        print(
            f"fixed speed, groups of {group_size}: {rollouts / pipeline_s:9,.0f} rollouts/s,"
            f" bare heap loop {rollouts / loop_s:9,.0f} rollouts/s, ratio {loop_s / pipeline_s:.2f}"
        )
    configs = {
        "load-dependent": loaded(args.updates),
        "lengths x 100": loaded(args.updates, scale=100),
        "with prefill": loaded(args.updates, prefill_s_per_token=1e-6),
        "room for 200,000 tokens": loaded(args.updates, prefill_s_per_token=1e-6, kv_capacity_tokens=200_000),
    }
    seconds = best_seconds(*(partial(run, config) for config in configs.values()), repeats=args.repeats)
    for name, spent_s in zip(configs, seconds, strict=True):
        print(
            f"{name:>24}: {rollouts / spent_s:9,.0f} rollouts/s, {spent_s / seconds[0]:.2f} times the first"
        )


if __name__ == "__main__":
    main()
