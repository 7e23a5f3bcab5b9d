"""One load-dependent engine, token by token: no heap, no closed form for the inverse, no shared code.

Each rollout carries the tokens it has made as a fraction; the world moves from one token's end to the next.
"""

from dataclasses import dataclass, field
from math import inf

EPS = 1e-7


@dataclass
class Life:
    id: int
    prompt: int
    length: int
    done: float = 0.0
    step_version: int = 0
    versions: list = field(default_factory=list)
    started_s: float = 0.0
    finished_s: float | None = None
    preempted: int = 0


def simulate(
    lengths,
    *,
    slots,
    a,
    b,
    c,
    prefill,
    prompt_tokens,
    capacity,
    batch,
    update_s,
    push_s,
    updates,
    running="keep",
    pauses=False,
):
    """Unbounded staleness, one update a batch. Returns every life by id, publishes and preemptions."""
    capacity = inf if capacity is None else capacity
    now, version, stall, paused = 0.0, 0, 0.0, False
    lives, active, waiting, queue, publishes = [], [], [], [], []
    trainer, trainer_s = "idle", inf
    again = []
    started = 0

    def held():
        return sum(prompt_tokens + life.done for life in active)

    def join(life):
        nonlocal stall
        life.step_version = version
        active.append(life)
        stall = max(stall, now) + prefill * (prompt_tokens + life.done)

    def new(prompt, length):
        life = Life(len(lives), prompt, length, started_s=now)
        lives.append(life)
        return life

    def room(tokens):
        return held() + tokens + len(active) + 1 <= capacity + EPS

    def admit():
        nonlocal started
        while not paused and len(active) < slots:
            if waiting:
                if not room(prompt_tokens + waiting[0].done):
                    return
                join(waiting.pop(0))
            elif room(prompt_tokens):
                prompt, length = again.pop(0) if again else (started, lengths[started % len(lengths)])
                started += prompt == started
                join(new(prompt, length))
            else:
                return

    def cost(u, n, kv):
        return (a + b * n + c * kv) * u + c * n * u * u / 2

    def move(u):
        for life in active:
            life.done += u
            if abs(life.done - round(life.done)) < EPS and round(life.done) > len(life.versions):
                life.done = float(round(life.done))
                life.versions.append(life.step_version)
                life.step_version = version
        for life in sorted((x for x in active if x.done == x.length), key=lambda x: x.id):
            life.finished_s = now
            active.remove(life)
            queue.append(life)

    def leave(life):
        life.done = float(len(life.versions))

    admit()
    while version < updates:
        if trainer == "idle" and len(queue) >= batch:
            del queue[:batch]
            trainer, trainer_s = "train", now + update_s
            continue
        ready_s = max(now, stall)
        u = inf
        if active and not paused:
            u = min(int(life.done + EPS) + 1 - life.done for life in active)
            full = (capacity - held()) / len(active)
            u = full if full < u - EPS else u
        end_s = ready_s + cost(u, len(active), held()) if u < inf else inf
        if end_s <= trainer_s + 1e-9:
            now = end_s
            move(u)
            if active and capacity - held() < EPS and all(x.done < x.length for x in active):
                youngest = max(active, key=lambda x: x.id)
                active.remove(youngest)
                leave(youngest)
                youngest.preempted += 1
                waiting.insert(0, youngest)
        else:
            if active and not paused and trainer_s > ready_s:
                low, high = 0.0, u
                for _ in range(200):
                    middle = (low + high) / 2
                    if cost(middle, len(active), held()) < trainer_s - ready_s:
                        low = middle
                    else:
                        high = middle
                move_to = trainer_s
                now = move_to
                move(low)
            if paused:
                stall += max(0.0, trainer_s - now) if stall > now else 0.0
            now = trainer_s
            if trainer == "train":
                trainer, trainer_s = "push", now + push_s
                paused = pauses
            else:
                version += 1
                publishes.append(now)
                trainer, trainer_s, paused = "idle", inf, False
                stopped = sorted(active, key=lambda x: x.id) if running != "keep" else []
                if stopped:
                    active.clear()
                    stall = now
                for life in stopped:
                    leave(life)
                    if running == "recompute":
                        join(life)
                    else:
                        join(new(life.prompt, life.length))
                if running == "restart":
                    again += [(life.prompt, life.length) for life in waiting]
                    waiting.clear()
                for life in active:
                    if abs(life.done - round(life.done)) < EPS:
                        life.step_version = version
        if trainer_s > now + 1e-9:  # else the trainer comes first in this instant
            admit()
    return lives, publishes
