"""How many rollouts a second does the pipeline simulate, beside a bare heap loop of the same model?

    python -m benchmarks.bench_pipeline [--updates 1500] [--repeats 5]

The loop knows no rules, no ledger, no intervals and no SimPy, but records the same rollouts, segments and
updates, so it is about the least that such a run can cost in Python. A fifth of its rate is the aim.
"""

from __future__ import annotations

import argparse
import itertools
from functools import partial

from benchmarks.turns import best_seconds
from simulator.config import PipelineConfig, Unbounded
from simulator.pipeline.pipeline import drawn_lengths, run
from simulator.world.decoding import FixedSpeed
from simulator.world.lengths import LogNormal
from tests.simulator import twin


def bare_loop(config: PipelineConfig) -> None:
    drawn = drawn_lengths(config)
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    for group_size in (1, 8):
        config = PipelineConfig(
            slots=256,
            engine=FixedSpeed(seconds_per_token=0.02),
            group_size=group_size,
            rollouts_per_update=64,
            updates=args.updates,
            policy_update_s=0.7 * 64 * 20 / 256,  # the trainer is busy 70 % of the time
            lengths=LogNormal(mean_tokens=1000, sd_tokens=1500),
            staleness=Unbounded(),
        )
        rollouts = config.updates * config.rollouts_per_update
        works = (partial(run, config), partial(bare_loop, config))
        pipeline_s, loop_s = best_seconds(*works, repeats=args.repeats)
        print(
            f"groups of {group_size}: pipeline {rollouts / pipeline_s:9,.0f} rollouts/s,"
            f" bare heap loop {rollouts / loop_s:9,.0f} rollouts/s, ratio {loop_s / pipeline_s:.2f}"
        )


if __name__ == "__main__":
    main()
