"""The busiest rank sets the pace."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.world.service import busiest_rank_tokens, fixed_and_per_token

some_tokens = st.lists(st.integers(1, 1000), min_size=1, max_size=6)


def test_a_step_by_hand():
    assert fixed_and_per_token(2.0, 0.5)(6) == 5.0


def test_two_ranks_by_hand():
    # in turn: 9 + 1 against 8 + 2; the longest first: 9, 8, then 2 to the 8 and 1 to the 9
    assert busiest_rank_tokens([9, 8, 1, 2], 2, "in_turn") == 10
    assert busiest_rank_tokens([9, 8, 1, 2], 2) == 10
    # in turn the two long ones meet
    assert busiest_rank_tokens([9, 1, 8, 2], 2, "in_turn") == 17
    assert busiest_rank_tokens([9, 1, 8, 2], 2) == 10


@pytest.mark.parametrize("balance", ["longest_first", "in_turn"])
@given(some_tokens, st.integers(1, 8))
def test_between_the_bounds(balance, tokens, ranks):
    busiest = busiest_rank_tokens(tokens, ranks, balance)
    assert max(sum(tokens) / ranks, max(tokens)) <= busiest <= sum(tokens)


@given(some_tokens, st.integers(1, 3))
def test_the_longest_first_is_within_a_third_of_the_best_deal(tokens, ranks):
    best = min(
        max(sum(n for n, rank in zip(tokens, deal, strict=True) if rank == r) for r in range(ranks))
        for deal in product(range(ranks), repeat=len(tokens))
    )
    assert busiest_rank_tokens(tokens, ranks) <= (4 / 3 - 1 / (3 * ranks)) * best + 1e-9


@given(some_tokens)
def test_one_rank_has_everything(tokens):
    assert busiest_rank_tokens(tokens, 1) == busiest_rank_tokens(tokens, 1, "in_turn") == sum(tokens)
