"""The plan of an update: who computes which rollouts."""

from hypothesis import given
from hypothesis import strategies as st

from full_runs.trainer.layout import PACKED, PADDED
from full_runs.trainer.rows import dealt, plan

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=30)


@given(LENGTHS, st.integers(1, 5), st.integers(1, 120), st.sampled_from([PADDED, PACKED]))
def test_every_rollout_once_within_the_budget_and_equally_many_passes(lengths, ranks, budget, layout):
    shares = plan(lengths, ranks, cost=layout.cost, tokens_at_once=budget)
    assert sorted(row for share in shares for piece in share for row in piece) == list(range(len(lengths)))
    assert len({len(share) for share in shares}) == 1
    for piece in (piece for share in shares for piece in share if len(piece) > 1):
        assert layout.cost([lengths[row] for row in piece]) <= budget


@given(LENGTHS, st.integers(1, 5))
def test_no_rank_has_more_than_another_by_over_the_longest_rollout(lengths, ranks):
    loads = [sum(lengths[row] for row in share) for share in dealt(lengths, ranks)]
    assert max(loads) - min(loads) <= max(lengths)


def test_by_hand():
    # 9 to rank 0; 5 and 3 to rank 1; 2 joins them, having 8 tokens against 9; at most 10 tokens, padded.
    assert dealt([3, 9, 2, 5], 2) == ((1,), (3, 0, 2))
    assert plan([3, 9, 2, 5], 2, cost=PADDED.cost, tokens_at_once=10) == (((1,), ()), ((3, 0), (2,)))
    # Packed, all ten tokens of rank 1 fit.
    assert plan([3, 9, 2, 5], 2, cost=PACKED.cost, tokens_at_once=10) == (((1,),), ((3, 0, 2),))


def test_without_a_budget_there_is_one_piece_and_an_empty_one_where_rollouts_are_few():
    assert plan([4], 2, cost=PADDED.cost, tokens_at_once=None) == (((0,),), ((),))
