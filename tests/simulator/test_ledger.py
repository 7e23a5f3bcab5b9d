"""generated = the sum of the states, at every move."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.ledger import STATES, Ledger


def test_a_life_of_two_rollouts():
    ledger = Ledger()
    ledger.start(10)
    ledger.start(30)
    ledger.move("in_flight", "waiting", 1, 30)
    ledger.move("waiting", "queued", 1, 30)
    ledger.move("queued", "training", 1, 30)
    ledger.move("training", "trained", 1, 30)
    ledger.drop("in_flight", "aborted", 1, 10)
    assert ledger.rollouts == dict.fromkeys(STATES, 0) | {"trained": 1, "dropped": 1}
    assert ledger.tokens == dict.fromkeys(STATES, 0) | {"trained": 30, "dropped": 10}
    assert ledger.dropped_by_reason == {"aborted": (1, 10)}


@given(st.lists(st.tuples(st.integers(1, 99), st.sampled_from(STATES), st.sampled_from(STATES))))
def test_moves_keep_the_sum(moves):
    ledger = Ledger()
    for tokens, source, target in moves:
        ledger.start(tokens)
        ledger.move("in_flight", source, 1, tokens)
        ledger.move(source, target, 1, tokens)
    assert ledger.generated_rollouts == sum(ledger.rollouts.values()) == len(moves)
    assert ledger.generated_tokens == sum(ledger.tokens.values()) == sum(tokens for tokens, _, _ in moves)
