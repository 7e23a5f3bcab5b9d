"""Every composition once more: one token at a time, in plain Python, gradients by hand.

Written from the papers' formulas and shares no line with `algorithms`. A `Row` holds the action tokens of one
rollout and nothing else, so no mask appears below. Losses are minimised; a slope is d loss / d log pi.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, pstdev, stdev

from algorithms.rollout import Batch

Numbers = list[float]


@dataclass(frozen=True, kw_only=True)
class Row:
    """The action tokens of one rollout, in order."""

    pi: Numbers
    old: Numbers
    mu: Numbers
    ref: Numbers
    reward: Numbers
    value: Numbers
    step: list[int]
    after: float
    """Value of what follows the last action."""
    group: int
    baseline: float

    @property
    def total(self) -> float:
        return sum(self.reward)

    def __len__(self) -> int:
        return len(self.pi)

    def ratio(self, name: str) -> list[float]:
        return [p - q for p, q in zip(self.pi, getattr(self, name), strict=True)]

    @property
    def mismatch(self) -> list[float]:
        """log(pi_old / mu)."""
        return [p - q for p, q in zip(self.old, self.mu, strict=True)]


def rows_of(batch: Batch, log_probs: list[Numbers]) -> list[Row]:
    """Rollouts without an action are left out."""
    fields = {
        name: getattr(batch, name).tolist()
        for name in (
            "action_mask", "rewards", "values", "bootstrap_values", "baselines", "truncated", "group_ids",
            "old_log_probs", "behaviour_log_probs", "reference_log_probs",
        )
    }  # fmt: skip
    rows = []
    for i, mask in enumerate(fields["action_mask"]):
        at = [t for t, chosen in enumerate(mask) if chosen]
        if not at:
            continue
        step = [0]
        for before, now in itertools.pairwise(at):
            step.append(step[-1] + (now != before + 1))
        rows.append(
            Row(
                pi=[log_probs[i][t] for t in at],
                old=[fields["old_log_probs"][i][t] for t in at],
                mu=[fields["behaviour_log_probs"][i][t] for t in at],
                ref=[fields["reference_log_probs"][i][t] for t in at],
                reward=[fields["rewards"][i][t] for t in at],
                value=[fields["values"][i][t] for t in at],
                step=step,
                after=fields["bootstrap_values"][i] if fields["truncated"][i] else 0.0,
                group=fields["group_ids"][i],
                baseline=fields["baselines"][i],
            )
        )
    return rows


def exp(nats: float) -> float:
    return math.exp(min(max(nats, -20.0), 20.0))


# Advantages: rows -> one list a row.


def centred(rows: list[Row]) -> list[float]:
    out = []
    for row in rows:
        peers = [other.total for other in rows if other.group == row.group]
        out.append(0.0 if min(peers) == max(peers) else row.total - fmean(peers))
    return out


def along(each: list[float], rows: list[Row]) -> list[Numbers]:
    return [[a] * len(row) for a, row in zip(each, rows, strict=True)]


def group_mean(rows: list[Row]) -> list[Numbers]:
    return along(centred(rows), rows)


def _scaled(rows: list[Row], std: Callable[[Numbers], float]) -> list[Numbers]:
    each = []
    for row, a in zip(rows, centred(rows), strict=True):
        peers = [other.total for other in rows if other.group == row.group]
        each.append(a / (std(peers) + 1e-6) if a else 0.0)
    return along(each, rows)


def grouped(rows: list[Row]) -> list[Numbers]:
    return _scaled(rows, stdev)


def grouped_population(rows: list[Row]) -> list[Numbers]:
    return _scaled(rows, pstdev)


def scaled_by_batch(rows: list[Row]) -> list[Numbers]:
    each = centred(rows)
    return along([a / (stdev(each) + 1e-6) for a in each], rows)


def left_out(rows: list[Row]) -> list[Numbers]:
    each = []
    for i, row in enumerate(rows):
        others = [other.total for j, other in enumerate(rows) if other.group == row.group and j != i]
        each.append(row.total - fmean(others) if others else 0.0)
    return along(each, rows)


def past_mean(rows: list[Row]) -> list[Numbers]:
    return along([row.total - row.baseline for row in rows], rows)


def past_mean_white(rows: list[Row]) -> list[Numbers]:
    raw = [row.total - row.baseline for row in rows]
    return along([(a - fmean(raw)) / (stdev(raw) + 1e-8) for a in raw], rows)


def whitened(raw: list[Numbers]) -> list[Numbers]:
    flat = [a for row in raw for a in row]
    return [[(a - fmean(flat)) / (stdev(flat) + 1e-8) for a in row] for row in raw]


def to_come_white(rows: list[Row]) -> list[Numbers]:
    return whitened([[sum(row.reward[k:]) for k in range(len(row))] for row in rows])


def group_mean_white(rows: list[Row]) -> list[Numbers]:
    return whitened(group_mean(rows))


def gae(reward: Numbers, value: Numbers, after: float, lam: float) -> Numbers:
    out: Numbers = []
    later = 0.0
    for k in reversed(range(len(reward))):
        following = value[k + 1] if k + 1 < len(value) else after
        later = reward[k] + following - value[k] + lam * later
        out.insert(0, later)
    return out


def gae_at(lam: Callable[[int], float]) -> Callable[[list[Row]], list[Numbers]]:
    return lambda rows: [gae(row.reward, row.value, row.after, lam(len(row))) for row in rows]


def by_step(value_of: Callable[[Numbers], float]) -> Callable[[list[Row]], list[Numbers]]:
    def advantages(rows: list[Row]) -> list[Numbers]:
        out = []
        for row in rows:
            steps = range(row.step[-1] + 1)
            tokens = [[k for k in range(len(row)) if row.step[k] == s] for s in steps]
            reward = [sum(row.reward[k] for k in step) for step in tokens]
            value = [value_of([row.value[k] for k in step]) for step in tokens]
            of_step = gae(reward, value, row.after, 1 - 1 / (1.5 * len(tokens)))
            out.append([of_step[s] for s in row.step])
        return out

    return advantages


def vtrace(rows: list[Row]) -> list[Numbers]:
    out = []
    for row in rows:
        advantages: Numbers = []
        value_later, v_later = row.after, row.after
        for k in reversed(range(len(row))):
            rho = min(1.0, exp(row.mismatch[k]))
            advantages.insert(0, row.reward[k] + v_later - row.value[k])
            error = rho * (row.reward[k] + value_later - row.value[k]) + rho * (v_later - value_later)
            value_later, v_later = row.value[k], row.value[k] + error
        out.append(advantages)
    return out


# Weights of a token, made of pi_old / mu; zero drops it. Row -> list.


def token_weight(keep: Callable[[float], float]) -> Callable[[Row], Numbers]:
    """`keep` maps a ratio to its weight."""
    return lambda row: [keep(exp(x)) for x in row.mismatch]


def product_weight(keep: Callable[[float], float]) -> Callable[[Row], Numbers]:
    return lambda row: [keep(exp(sum(row.mismatch)))] * len(row)


def geometric(low: float, high: float) -> Callable[[Row], Numbers]:
    return lambda row: [float(low <= math.exp(fmean(row.mismatch)) <= high)] * len(row)


def k3_at_most(limit: float) -> Callable[[Row], Numbers]:
    return lambda row: [float(fmean([exp(x) - 1 - x for x in row.mismatch]) <= limit)] * len(row)


def no_token_below(least: float) -> Callable[[Row], Numbers]:
    return lambda row: [float(min(math.exp(x) for x in row.mismatch) >= least)] * len(row)


def kpop(delta: float) -> Callable[[Row], Numbers]:
    def divergence(p: float, q: float) -> float:
        return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))

    def weights(row: Row) -> Numbers:
        pairs = [(math.exp(p), math.exp(q)) for p, q in zip(row.old, row.mu, strict=True)]
        return [float(max(divergence(p, q), divergence(q, p)) <= delta) for p, q in pairs]

    return weights


def product(*weights: Callable[[Row], Numbers]) -> Callable[[Row], Numbers]:
    return lambda row: [math.prod(each) for each in zip(*(weight(row) for weight in weights), strict=True)]
