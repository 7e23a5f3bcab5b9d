"""How many requests a second do we simulate, beside vllm-sr-sim, a simulator of fleets that serve models?

    .venv-peers/bin/python -m benchmarks.bench_peer [--requests 12800] [--repeats 3]

Both get the same engines (its H100: step time, chunk, KV limit, and the slots that its context leaves), the
same number of requests, one prompt length and the same answer lengths in the same order. The requests are
made before its clock starts; ours draws its lengths while it runs. What is compared is the time that they
take, not what they find, for they do not mean the same:

- Theirs fixes how long a request holds its slot when it starts, from the mean *final* length of what runs
  then, and lets go of the slot after 1 / slots of that time, as its queueing theory asks. So its fleets serve
  about `slots` times as many requests a second. Each start and each end walks over all that run.
- Ours has every slot decode at the load of each moment, solved exactly between events. Prefill costs the
  same seconds a token, in tokens instead of chunks, and the whole engine waits for it.
- Theirs has arrivals, routers, power and cost; ours has none. It leaves a list of requests, each with its
  five times.
- Ours has a trainer, pushes and versions; it leaves the full log (rollouts, segments by version, updates,
  what each slot did) and checks its ledger. A batch is a quarter of the slots, as in `bench_pipeline`; an
  update takes no time, so that engines alone set the pace.
- Ours is a closed loop: a slot that is free is filled. Theirs is open. So it is timed twice: `all at once`
  queues every request at time 0 in a pool without a queue limit, which keeps the slots as full as ours and
  skips its arrival loop; `fleet` is its own way in, Poisson arrivals at 90 % of the rate just found.

The aim is ten times the requests a second. https://pypi.org/project/vllm-sr-sim/.
"""

from __future__ import annotations

import argparse
import importlib.util
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.turns import best_seconds
from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import drawn_lengths, run
from simulator.world.decoding import LoadDependent
from simulator.world.lengths import LogNormal

PROMPT_TOKENS = 512
FOREVER_S = 1e9


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A fleet of one kind of engine; its context decides how many slots one has."""

    engines: int
    context_tokens: int


SHAPES = (
    Shape(engines=1, context_tokens=8192),
    Shape(engines=1, context_tokens=4096),
    Shape(engines=1, context_tokens=2048),
    Shape(engines=8, context_tokens=4096),
    Shape(engines=32, context_tokens=8192),
)


def our_config(shape: Shape, gpu: Any, requests: int) -> PipelineConfig:
    """Their step W + H / calibration * mean length * n is ours with a = W, b = 0, c = H / calibration."""
    slots = shape.engines * gpu.n_slots(shape.context_tokens)
    batch = slots // 4
    return PipelineConfig(
        slots=slots,
        engines=shape.engines,
        engine=LoadDependent(
            step_fixed_s=gpu.W,
            step_s_per_rollout=0.0,
            step_s_per_kv_token=gpu.H / gpu.calibration_ctx,
            prefill_s_per_token=gpu.W / gpu.chunk,
            kv_capacity_tokens=gpu.total_kv_blks * gpu.blk_size,
        ),
        prompt_tokens=PROMPT_TOKENS,
        rollouts_per_update=batch,
        updates=requests // batch,
        policy_update_s=0.0,
        lengths=LogNormal(mean_tokens=1000, sd_tokens=1500, max_tokens=shape.context_tokens - PROMPT_TOKENS),
    )


def all_at_once(shape: Shape, gpu: Any, requests: list[Any]) -> float:
    """Their pool, every request queued at time 0. Returns requests a simulated second."""
    from fleet_sim.core import Pool

    done: list[Any] = []
    pool = Pool(
        "pool", gpu, shape.engines, shape.context_tokens, max_queue=len(requests), on_complete=done.append
    )
    for request in requests:
        pool.route(request)
    pool.advance_to(FOREVER_S)
    assert len(done) == len(requests), f"{len(requests) - len(done)} requests were not served"
    return len(done) / max(request.end_time for request in done)


def fleet(shape: Shape, gpu: Any, arrivals: list[tuple[float, Any]]) -> None:
    """Their fleet of one pool, with arrivals in time."""
    from fleet_sim.core import Fleet, FleetConfig, PoolConfig

    pool = PoolConfig("pool", gpu, shape.engines, shape.context_tokens, lb_strategy="least_loaded")
    served = Fleet(FleetConfig([pool], router_type="LeastLoadedRouter")).run(arrivals).completed
    assert len(served) == len(arrivals), f"{len(arrivals) - len(served)} requests were not served"


def measure(shape: Shape, requests: int, repeats: int) -> str:
    from fleet_sim.core import Request
    from fleet_sim.gpu_profiles.profiles import H100_80GB as gpu  # noqa: N811 - theirs is a value, not a type

    config = our_config(shape, gpu, requests)
    requests = config.updates * config.rollouts_per_update
    lengths = islice(drawn_lengths(config).in_order(), requests)
    # A run of theirs overwrites all that the one before left in a request.
    made = [Request(i, 0.0, PROMPT_TOKENS, tokens) for i, tokens in enumerate(lengths)]
    rate = 0.9 * all_at_once(shape, gpu, made)
    times_s = np.random.default_rng(0).exponential(1.0 / rate, requests).cumsum().tolist()
    arrivals = list(zip(times_s, made, strict=True))
    seconds = best_seconds(
        partial(run, config),
        partial(all_at_once, shape, gpu, made),
        partial(fleet, shape, gpu, arrivals),
        repeats=repeats,
    )
    ours, at_once, served = (requests / s for s in seconds)
    return (
        f"{shape.engines:2} x {config.slots // shape.engines} slots: ours {ours:7,.0f} requests/s;"
        f" vllm-sr-sim all at once {at_once:7,.0f}, ratio {ours / at_once:4.1f};"
        f" fleet {served:7,.0f}, ratio {ours / served:4.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=12800)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if importlib.util.find_spec("fleet_sim") is None:
        print("vllm-sr-sim: not measured, not installed here (make setup-peers)")
        return
    for shape in SHAPES:
        print(measure(shape, args.requests, args.repeats), flush=True)


if __name__ == "__main__":
    main()
