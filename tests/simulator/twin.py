"""A slow-witted twin of the pipeline: one heap, one loop, no SimPy; unbounded staleness, one update a batch.

It records the same columns, so it also says what the least is that such a run costs.
"""

import heapq
import math
from collections import deque

FINISH, PUBLISH = 0, 1


def simulate(
    lengths, *, slots, seconds_per_token, group_size, rollouts_per_update, updates, update_s, push_s
):
    """`lengths` yields tokens in order of starts. Returns rows of trained rollouts, segments, updates."""
    rollouts, segments, update_rows = [], [], []
    heap, queue, groups, started = [], deque(), {}, 0
    published_s, version, queued, in_training = [0.0], 0, 0, None
    wait_start_s = 0.0

    def start(now):
        nonlocal started
        tokens = next(lengths)
        heapq.heappush(heap, (now + tokens * seconds_per_token, FINISH, started, tokens, now, version))
        started += 1

    for _ in range(slots):
        start(0.0)
    while version < updates:
        now, kind, rollout, tokens, started_s, first = heapq.heappop(heap)
        free = 0
        if kind == FINISH:
            free = 1
            group = rollout // group_size
            members = groups.setdefault(group, [])
            done, made_by = 0, []
            for v in range(first, version + 1):
                end = tokens
                if v < version:
                    steps = math.ceil((published_s[v + 1] - started_s) / seconds_per_token - 1e-6)
                    end = min(steps, tokens)
                if end > done:
                    times = (started_s + done * seconds_per_token, started_s + end * seconds_per_token)
                    segments.append((rollout, v, done, end - done, *times))
                    made_by.append(v)
                    done = end
            members.append((rollout, started_s, now, made_by[0], made_by[-1], tokens))
            if len(members) == group_size:
                queue.append((now, sorted(groups.pop(group))))
                queued += group_size
        else:
            train_start_s, batch, size = in_training
            for enqueued_s, group in batch:
                for rollout, started_s, finished_s, first, last, tokens in group:
                    place = (rollout, rollout // group_size, rollout // group_size, rollout % group_size, 0)
                    times = (started_s, started_s, finished_s, enqueued_s, enqueued_s, train_start_s)
                    versions = (first, last, first, version)
                    rollouts.append((*place, *times, *versions, tokens, 0, 1, None, "trained", None))
            version += 1
            published_s.append(now)
            row = (version, wait_start_s, train_start_s, now - push_s, now, rollouts_per_update, size)
            update_rows.append(row)
            in_training, wait_start_s = None, now
        if in_training is None and queued >= rollouts_per_update:
            batch, size, n = [], 0, 0
            while n < rollouts_per_update:
                batch.append(queue.popleft())
                n += group_size
                for member in batch[-1][1]:
                    size += member[-1]
            queued -= n
            in_training = (now, batch, size)
            heapq.heappush(heap, (now + update_s + push_s, PUBLISH, -1, 0, 0.0, 0))
        for _ in range(free):
            start(now)
    return rollouts, segments, update_rows
