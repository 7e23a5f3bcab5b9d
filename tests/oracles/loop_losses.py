"""Losses of every composition, one token at a time: value and slope by hand. See `loops`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean

from tests.oracles.loops import Numbers, Row, exp

RowLoss = Callable[[Row, Numbers], tuple[float, Numbers]]
"""(row, its advantages) -> sum of its tokens' losses, and that sum's derivative by each log pi."""

Token = Callable[[float, float, float], tuple[float, float]]
"""(log-ratio, advantage, log pi) -> a token's loss and its slope."""


def each(token: Token, against: str = "old") -> RowLoss:
    def loss(row: Row, advantages: Numbers) -> tuple[float, Numbers]:
        pairs = list(map(token, row.ratio(against), advantages, row.pi))
        return sum(value for value, _ in pairs), [slope for _, slope in pairs]

    return loss


def ppo(low: float, high: float, cap: float = math.inf) -> Token:
    """`low` and `high` bound the ratio; `cap` is the dual clip's."""

    def token(x: float, a: float, _: float) -> tuple[float, float]:
        r = exp(x)
        plain, clipped = -a * r, -a * min(max(r, low), high)
        value, moves = max(plain, clipped), plain >= clipped and abs(x) <= 20
        if a < 0 and value > -cap * a:
            return -cap * a, 0.0
        return value, plain if moves else 0.0

    return token


def weighted(weight: Callable[[float, float], float]) -> Token:
    """The score form: `weight` maps ratio and advantage to a detached weight."""

    def token(x: float, a: float, log_pi: float) -> tuple[float, float]:
        w = weight(exp(x), a)
        return -w * a * log_pi, -w * a

    return token


def cut(low: float, high: float) -> Token:
    return weighted(lambda r, a: min(max(r, low), high))  # noqa: ARG005


def dis(low: float, high: float) -> Token:
    return weighted(lambda r, a: r if low < r < high else 0.0)  # noqa: ARG005


reinforce = weighted(lambda r, a: 1.0)  # noqa: ARG005


def dppo(far: Callable[[float, float], float], delta: float) -> Token:
    def token(x: float, a: float, log_pi: float) -> tuple[float, float]:
        pi, mu = math.exp(log_pi), math.exp(log_pi - x)
        outward = pi > mu if a > 0 else pi < mu
        w = 0.0 if outward and far(pi, mu) > delta else min(exp(x), 20.0)
        return -w * a * log_pi, -w * a

    return token


def binary_kl(pi: float, mu: float) -> float:
    return mu * math.log(mu / pi) + (1 - mu) * math.log((1 - mu) / (1 - pi))


def soft(x: float, a: float, _: float) -> tuple[float, float]:
    tau = 1.0 if a > 0 else 1.05
    r = exp(x)
    gate = 1 / (1 + math.exp(-min(max(tau * (r - 1), -700), 700)))
    return -4 / tau * gate * a, (-4 * gate * (1 - gate) * r * a if abs(x) <= 20 else 0.0)


def pulled(weight: float, token: Token) -> Token:
    def both(x: float, a: float, log_pi: float) -> tuple[float, float]:
        value, slope = token(x, a, log_pi)
        return value + weight * x * x, slope + 2 * weight * x

    return both


def gspo(row: Row, advantages: Numbers) -> tuple[float, Numbers]:
    mean = fmean(row.ratio("old"))
    pairs = [ppo(1 - 3e-4, 1 + 4e-4)(mean, a, 0.0) for a in advantages]
    return sum(value for value, _ in pairs), [sum(slope for _, slope in pairs) / len(row)] * len(row)


def gmpo(row: Row, advantages: Numbers) -> tuple[float, Numbers]:
    a = advantages[0]
    sign = math.copysign(1, a)
    q = [min(sign * x, sign * min(max(x, -0.4), 0.4)) * sign for x in row.ratio("old")]
    value = -a * exp(fmean(q))
    moves = abs(fmean(q)) <= 20
    # The rollout's loss once at each of its tokens; each token moves the mean by one over the length.
    own = zip(row.ratio("old"), q, strict=True)
    return value * len(row), [value if moves and x == kept else 0.0 for x, kept in own]


def of_rollout(weight: Callable[[float, float], float]) -> RowLoss:
    """`weight` maps the rollout's log-ratio against mu and its advantage to a weight of all its tokens."""

    def loss(row: Row, advantages: Numbers) -> tuple[float, Numbers]:
        w = [weight(sum(row.ratio("mu")), a) for a in advantages]
        terms = zip(w, advantages, row.pi, strict=True)
        return sum(-w * a * p for w, a, p in terms), [-w * a for w, a in zip(w, advantages, strict=True)]

    return loss


def tapered(x: float, a: float) -> float:
    return 1.0 if a >= 0 else min(exp(x), 1.0)


def vespo(x: float, a: float) -> float:
    k, lam = (2.0, 3.0) if a >= 0 else (3.0, 2.0)
    log_w = min(max(x, math.log(1e-8)), 20.0)
    return math.exp(max(lam + k * log_w - lam * math.exp(log_w), -745.0))


def opsm(row: Row, advantages: Numbers) -> tuple[float, Numbers]:
    if advantages[0] < 0 and fmean([-x for x in row.ratio("mu")]) > 1e-4:
        return 0.0, [0.0] * len(row)
    return each(ppo(0.8, 1.28), "mu")(row, advantages)


def tba(rows: list[Row]) -> tuple[float, list[Numbers]]:
    beta, n = 0.012, len(rows)
    old = [sum(p - q for p, q in zip(row.old, row.ref, strict=True)) for row in rows]
    value, slopes = 0.0, []
    for row in rows:
        peers = [k for k in range(n) if rows[k].group == row.group]
        z = fmean([rows[k].total / beta - old[k] for k in peers])
        apart = z + sum(row.ratio("ref")) - row.total / beta
        value += beta / 2 * apart**2 / n
        # A token's mean over the row holds the row's square L times, divided by L.
        slopes.append([beta * apart / n] * len(row))
    return value, slopes


def imitated(loss: RowLoss) -> RowLoss:
    def both(row: Row, advantages: Numbers) -> tuple[float, Numbers]:
        value, slopes = loss(row, advantages)
        w = 0.1 if row.total > 0 else 0.0
        return value - w * sum(row.pi), [slope - w for slope in slopes]

    return both


# What is searched over the whole batch before the loss.


def log_ratios_and_advantages(rows: list[Row], advantages: list[Numbers]) -> Iterator[tuple[float, float]]:
    for row, own in zip(rows, advantages, strict=True):
        yield from zip(row.ratio("old"), own, strict=True)


def m2po(rows: list[Row], advantages: list[Numbers]) -> RowLoss:
    pairs = list(log_ratios_and_advantages(rows, advantages))
    moved = [x * x for x, a in pairs if (a > 0 and x > 0) or (a < 0 and x < 0)]
    if not moved or fmean(moved) <= 0.04:
        return each(ppo(0.0, math.inf))
    low, high = 0.0, math.sqrt(max(moved))
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if fmean([min(d, tau * tau) for d in moved]) < 0.04 else (low, tau)
    return each(ppo(math.exp(-tau), math.exp(tau)))


def bapo(rows: list[Row], advantages: list[Numbers]) -> RowLoss:
    pairs = list(log_ratios_and_advantages(rows, advantages))

    def balance(low: float, high: float) -> bool:
        good = sum(exp(x) * a for x, a in pairs if a > 0 and math.exp(x) <= high)
        bad = sum(exp(x) * -a for x, a in pairs if a < 0 and low <= math.exp(x) <= 3.0)
        return good >= bad * (1 - 1e-6)

    low, high = 12, 24  # twentieths
    while not balance(low / 20, high / 20) and (low, high) != (16, 40):
        low, high = (low + 1, high) if low < 16 else (low, high + 1)
    return each(ppo(low / 20, high / 20, cap=3.0))


def dropped_largest(rows: list[Row]) -> Callable[[Row], Numbers]:
    moved = sorted((x * x for row in rows for x in row.mismatch), reverse=True)
    while len(moved) > 1 and not fmean(moved) < 0.04:
        moved.pop(0)
    return lambda row: [exp(x) if x * x <= moved[0] else 0.0 for x in row.mismatch]


@dataclass(frozen=True, kw_only=True)
class Twin:
    """What a composition is in the formulas of its paper."""

    advantage: Callable[[list[Row]], list[Numbers]]
    loss: RowLoss | Callable[[list[Row], list[Numbers]], RowLoss]
    mean: str
    weight: Callable[[Row], Numbers] | None = None
    drops: bool = False
    """The weight is `dropped_largest`, and what it drops is not counted."""
    searched: bool = False
    """`loss` is made of the whole batch."""


def evaluated(twin: Twin, rows: list[Row]) -> tuple[float, list[Numbers]]:
    """Loss of the batch, and its derivative by each token's log-prob."""
    advantages = twin.advantage(rows)
    weight, loss = twin.weight, twin.loss
    tokens = sum(map(len, rows))
    if twin.searched:
        loss = loss(rows, advantages)
    if twin.drops:
        weight = dropped_largest(rows)
        tokens = sum(w > 0 for row in rows for w in weight(row))
    total, slopes = 0.0, []
    for row, own in zip(rows, advantages, strict=True):
        share = {
            "tokens": 1 / max(tokens, 1),
            "rollouts": 1 / (len(rows) * len(row)),
            "sum": 1 / len(rows),
            "prompts": 1 / len({r.group for r in rows}) / sum(len(r) for r in rows if r.group == row.group),
        }[twin.mean]
        # A detached weight scales a token's loss as its advantage does.
        w = weight(row) if weight else [1.0] * len(row)
        value, slope = loss(row, [a * b for a, b in zip(own, w, strict=True)])
        total += share * value
        slopes.append([share * s for s in slope])
    return total, slopes
