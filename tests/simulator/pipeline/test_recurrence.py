"""The load-dependent engine against a bare recurrence: finish times, batches and lags of a whole run."""

import heapq

import numpy as np
import pytest

from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import drawn_lengths, run
from simulator.world.decoding import LoadDependent
from simulator.world.lengths import LogNormalOfLog

STEP_S, PER_ROLLOUT_S, PER_KV_TOKEN_S = 0.01, 1e-4, 1e-9


def recurrence(lengths, *, slots, batch, train_s, updates):
    """One engine, one trainer, nothing else: times at which rollouts end, and lags of what is trained."""
    position = now = kv = 0.0
    running, ends, started_at, queue, lags = [], {}, [], [], []
    version, busy_until = 0, None

    def start():
        i = len(started_at)
        started_at.append(version)
        heapq.heappush(running, (position + lengths[i], i))

    for _ in range(slots):
        start()
    while version < updates:
        n = len(running)
        tokens = running[0][0] - position
        step = STEP_S + PER_ROLLOUT_S * n + PER_KV_TOKEN_S * kv
        seconds = step * tokens + PER_KV_TOKEN_S * n * tokens**2 / 2
        if busy_until is not None and busy_until < now + seconds:
            version, now_trained = version + 1, busy_until
            busy_until = None
        else:
            now, position, kv = now + seconds, position + tokens, kv + n * tokens
            _, i = heapq.heappop(running)
            kv -= lengths[i]
            ends[i] = now_trained = now
            queue.append(i)
            start()
        if busy_until is None and len(queue) >= batch:
            lags += [version - started_at[i] for i in queue[:batch]]
            del queue[:batch]
            busy_until = now_trained + train_s
    return ends, lags


@pytest.mark.parametrize(("slots", "batch", "train_s"), [(64, 16, 1.0), (256, 64, 1.0), (128, 32, 9.0)])
def test_a_bare_recurrence_gives_the_same_ends_and_lags(slots, batch, train_s):
    config = PipelineConfig(
        slots=slots,
        engine=LoadDependent(
            step_fixed_s=STEP_S, step_s_per_rollout=PER_ROLLOUT_S, step_s_per_kv_token=PER_KV_TOKEN_S
        ),
        rollouts_per_update=batch,
        updates=60,
        policy_update_s=train_s,
        lengths=LogNormalOfLog(mu=6.77, sigma=0.97, max_tokens=32_768),
        seed=8,
    )
    drawn = drawn_lengths(config)
    lengths = [drawn.length_tokens(i, 0) for i in range(20_000)]
    ends, lags = recurrence(lengths, slots=slots, batch=batch, train_s=train_s, updates=60)
    rows = run(config).log.rollouts.to_pandas()
    finished = rows.dropna(subset="finished_s").set_index("rollout_id").finished_s
    assert finished.to_dict() == pytest.approx({i: ends[i] for i in finished.index}, rel=1e-9)
    trained = rows[rows.status == "trained"]
    ours = (trained.consumed_version - trained.oldest_version).to_numpy(dtype=np.int64)
    assert list(ours) == lags[: len(ours)]
