"""Which batches break losses? Hypothesis strategies that make them, small first.

Gaps in the action mask, ragged ends, rollouts without any action token, a single token; groups of one,
of unequal sizes, in any order; equal rewards; truncated rollouts; ratios of e^100; NaN wherever nothing
should look. All numbers come from short lists, so that a counterexample can be checked by hand.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from algorithms.conformance.disturb import poisoned
from algorithms.rollout import Batch

HardBatch = tuple[Batch, Float[Tensor, "B T"]]
"""A batch, and the log-probs of its tokens under the weights being trained."""


_MOVED = (0.0, 0.125, -0.125, 1.0, -1.0, 1e-4)
"""Nats, besides the largest: not at all, inside the usual bands, outside them, next to nothing."""


class Token(NamedTuple):
    """One entry of `[B, T]`."""

    chosen: bool = True
    log_ratio: float = 0.0
    likely: float = -1.0
    """log-prob under the policy that finds it likelier: neither may call a token more than certain."""
    value: float = 0.0


class Row(NamedTuple):
    """One rollout; its reward is terminal."""

    tokens: tuple[Token, ...]
    group: int
    reward: float
    truncated: bool
    bootstrap: float
    baseline: float


class Draft(NamedTuple):
    """A batch before it becomes tensors."""

    rows: tuple[Row, ...]
    old_share: float = 0.0
    """Where pi_old lies on the way from the policy that sampled (0) to the present one (1)."""


def tokens(largest_log_ratio: float = 100.0) -> st.SearchStrategy[Token]:
    """Action tokens and observations whose policy moved by up to `largest_log_ratio` nats."""
    moved = (*_MOVED, largest_log_ratio, -largest_log_ratio)
    choices = itertools.product((True, False), moved, (-1.0, -0.5, -3.0), (0.0, 1.0, -0.5))
    # One draw a token: hypothesis is quicker, and forgets a token as a whole.
    return st.sampled_from([Token(chosen=c, log_ratio=m, likely=p, value=v) for c, m, p, v in choices])


def rows(*, shortest: int = 1, longest: int = 4, largest_log_ratio: float = 100.0) -> st.SearchStrategy[Row]:
    """Rollouts of `shortest` to `longest` tokens: of three groups, truncated or not, with no action or
    `shortest` of them at least."""
    fields = itertools.product((0, 1, 7), (0.0, 1.0, -1.0, 0.5), (False, True), (0.0, 1.0), (0.0, 0.5))
    return st.builds(
        lambda fixed, drawn: _acting(Row(tuple(drawn), *fixed), shortest),
        st.sampled_from(list(fields)),
        st.lists(tokens(largest_log_ratio), min_size=shortest, max_size=longest),
    )


def _acting(row: Row, at_least: int, *, some: bool = False) -> Row:
    """No action or `at_least` of them; `some` leaves only the latter. The first observations make way."""
    # Whole rows in and out: a checker of types that looks into sequences at random would disturb hypothesis.
    chosen = sum(token.chosen for token in row.tokens)
    missing = at_least - chosen if chosen or some else 0
    made = []
    for token in row.tokens:
        made.append(token._replace(chosen=token.chosen or missing > 0))
        missing -= not token.chosen
    return row._replace(tokens=tuple(made))


def hard_batches(
    *,
    rollouts: int = 4,
    shortest: int = 1,
    longest: int = 4,
    largest_log_ratio: float = 100.0,
    some: bool = False,
    poison: bool = True,
    dtype: torch.dtype = torch.float64,
) -> st.SearchStrategy[HardBatch]:
    """A batch with every optional field filled, and the log-probs of a policy that moved away from it.

    Args:
        rollouts, longest: the largest B and T.
        shortest: fewest action tokens of a rollout that has any, for what refuses short ones.
        largest_log_ratio: in nats.
        some: at least one action token in all.
        poison: NaN wherever nothing should look, else numbers.
        dtype: of every floating field.

    Raises:
        ValueError: `shortest` below one, or above `longest`.
    """
    if not 1 <= shortest <= longest:
        raise ValueError(f"needs 1 <= shortest <= longest, got shortest {shortest} and longest {longest}")
    one = rows(shortest=shortest, longest=longest, largest_log_ratio=largest_log_ratio)

    def finished(draft: Draft) -> HardBatch:
        first = draft.rows[0]
        if some and not any(token.chosen for row in draft.rows for token in row.tokens):
            acting = _acting(first, shortest, some=True)
            draft = draft._replace(rows=(acting, *draft.rows[1:]))
        batch, log_probs = assembled(draft, dtype=dtype)
        if poison:
            return poisoned(batch), log_probs.where(batch.action_mask, torch.nan)
        return batch, log_probs

    several = st.lists(one, min_size=1, max_size=rollouts).map(tuple)
    # The trainer took the batch at once, halfway, or just now.
    return st.builds(Draft, several, st.sampled_from((0.0, 0.5, 1.0))).map(finished)


def assembled(draft: Draft, *, dtype: torch.dtype = torch.float64) -> HardBatch:
    """The rows as tensors, padded to the longest of them."""
    drawn = draft.rows
    width = max(len(row.tokens) for row in drawn)
    padding = Token(chosen=False)
    table = [[*row.tokens, *[padding] * (width - len(row.tokens))] for row in drawn]

    def each_token(name: str) -> Tensor:
        return torch.tensor([[getattr(token, name) for token in row] for row in table], dtype=dtype)

    def each_row(name: str) -> Tensor:
        return torch.tensor([getattr(row, name) for row in drawn], dtype=dtype)

    mask = torch.tensor([[token.chosen for token in row] for row in table])
    moved, likely = each_token("log_ratio"), each_token("likely")
    behaviour = likely - moved.clamp(min=0.0)
    last = mask & (mask.flip(-1).cumsum(-1).flip(-1) == 1)
    group_ids = torch.tensor([row.group for row in drawn])
    batch = Batch(
        token_ids=torch.zeros_like(mask, dtype=torch.long),
        action_mask=mask,
        behaviour_log_probs=behaviour,
        policy_versions=torch.zeros_like(mask, dtype=torch.long),
        rewards=each_row("reward")[:, None].expand(mask.shape).where(last, 0.0),
        prompt_ids=group_ids,
        group_ids=group_ids,
        truncated=torch.tensor([row.truncated for row in drawn]),
        temperature=torch.ones(len(drawn), dtype=dtype),
        values=each_token("value"),
        bootstrap_values=each_row("bootstrap"),
        baselines=each_row("baseline"),
        old_log_probs=behaviour + draft.old_share * moved,
    )
    absent = [f.name for f in dataclasses.fields(batch) if f.name.endswith("log_probs")]
    absent = [name for name in absent if getattr(batch, name) is None]
    return dataclasses.replace(batch, **dict.fromkeys(absent, behaviour)), behaviour + moved
