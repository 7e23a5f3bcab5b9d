"""Whatever a rule selects is a batch of candidates, each once; each rule's order by hand."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.rules import selection
from simulator.rules.selection import Candidate, Take

RULES = [
    selection.fifo,
    selection.oldest_submitted_first,
    selection.oldest_weights_first,
    selection.freshest_first,
    selection.uniformly_random,
    selection.in_order,
    selection.windowed_fifo(3),
    selection.none_too_old_running(2),
]


@pytest.mark.parametrize("rule", RULES)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=8, unique_by=lambda pair: pair[0]),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_a_selection_is_a_whole_batch_or_nothing(rule, drawn, taken, groups):
    arrived = [Candidate(submitted_index=i, oldest_version=v, newest_version=v, rollouts=2) for i, v in drawn]
    take = Take(
        batch_rollouts=2 * groups,
        version=4,
        taken_batches=taken,
        updates_per_batch=1,
        oldest_running_version=4,
        uniform=itertools.cycle((0.3, 0.8, 0.1)).__next__,
    )
    chosen = rule(arrived, take)
    if chosen is None:
        return
    assert len(set(chosen)) == len(chosen) == groups
    assert all(0 <= i < len(arrived) for i in chosen)


def test_orders_by_hand():
    """Arrived as groups 7, 2, 5 with weights 1, 0, 1; a batch is two of them."""
    arrived = [
        Candidate(submitted_index=i, oldest_version=v, newest_version=v, rollouts=1)
        for i, v in ((7, 1), (2, 0), (5, 1))
    ]
    take = Take(batch_rollouts=2, version=1, taken_batches=0, updates_per_batch=1)
    assert list(selection.fifo(arrived, take)) == [0, 1]
    assert selection.oldest_submitted_first(arrived, take) == [1, 2]
    assert selection.oldest_weights_first(arrived, take) == [1, 0]
    assert selection.freshest_first(arrived, take) == [0, 2]


@given(st.permutations(range(8)), st.integers(0, 8), st.integers(0, 3))
def test_in_order_finds_the_same_whether_it_is_told_of_unfinished_groups_or_not(order, arrived, taken):
    """Groups of 2, batches of 2 groups; what has not arrived is unfinished."""
    candidates = [
        Candidate(submitted_index=i, oldest_version=0, newest_version=0, rollouts=2) for i in order[:arrived]
    ]
    told, untold = (
        Take(
            batch_rollouts=4,
            version=0,
            taken_batches=taken,
            updates_per_batch=1,
            unfinished_indices=unfinished,
        )
        for unfinished in (sorted(order[arrived:]), ())
    )
    chosen = selection.in_order(candidates, told)
    assert chosen == selection.in_order(candidates, untold)
    due = [2 * taken, 2 * taken + 1]
    assert (chosen is not None) == all(i in order[:arrived] for i in due)
