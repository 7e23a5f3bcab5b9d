"""What the trainer does before and between updates, by hand."""

from simulator.config import Sync
from tests.simulator.runs import column, in_turn, simulate

BATCH = {"slots": 4, "rollouts_per_update": 2, "updates_per_batch": 2, "updates": 2, "staleness": Sync()}


def spells(result):
    rows = result.log.intervals.to_pandas()
    own = rows[(rows.resource == "trainer") & (rows.state == "busy")].sort_values("start_s")
    return list(zip(own.cause, own.start_s, own.end_s, strict=True))


def test_log_probs_are_computed_once_a_batch():
    # four rollouts of 1, 2, 3 and 4 tokens; ten tokens at half a second, then two updates of 2 s
    result = simulate(
        workload=in_turn(1, 2, 3, 4), log_prob_s=1.0, log_prob_s_per_token=0.5, reference_s=3.0, **BATCH
    )
    assert spells(result) == [
        ("log_prob", 4, 10),
        ("reference", 10, 13),
        ("policy_update", 13, 15),
        ("policy_update", 15, 17),
    ]
    # the passes belong to the batch, not to the wait for it
    assert column(result, "updates", "train_start_s") == [4, 15]
    assert column(result, "updates", "wait_start_s") == [0, 15]


def test_ranks_wait_for_the_one_with_the_most_tokens():
    settings = {**BATCH, "policy_update_s": 0.0, "policy_update_s_per_token": 1.0, "updates_per_batch": 1}
    settings |= {"rollouts_per_update": 4, "updates": 1, "workload": in_turn(9, 1, 8, 2)}
    for data_parallel, balance, seconds in (
        (1, "longest_first", 20),
        (2, "longest_first", 10),
        (2, "in_turn", 17),
        (4, "longest_first", 9),
        (8, "longest_first", 9),
    ):
        result = simulate(data_parallel=data_parallel, data_parallel_balance=balance, **settings)
        # they arrive as they end: 1, 2, 8, 9 tokens
        in_order = {"in_turn": 11}.get(balance, seconds)
        assert result.end_s - 9 == in_order
