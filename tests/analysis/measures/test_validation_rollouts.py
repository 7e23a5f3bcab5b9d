import pandas as pd

from analysis.measures.validation_rollouts import by_request

ROWS = pd.DataFrame(
    [
        ("validation", None, 5, 10.0, 12.0, 5, 5, 1.0),
        ("validation", None, 5, 11.0, 14.0, 5, 6, 0.0),
        ("validation", "restarted", 10, 20.0, None, 10, 10, None),
        ("validation", None, 10, 20.0, 22.0, 12, 12, None),
        ("validation", None, 10, 21.0, None, None, None, None),
        ("trained", None, 10, 1.0, 2.0, 0, 0, 1.0),
    ],
    columns=[
        "status",
        "reason",
        "consumed_version",
        "submitted_s",
        "finished_s",
        "first_version",
        "last_version",
        "reward",
    ],
)


def test_a_result_belongs_to_the_version_that_was_asked_and_says_who_answered():
    # Case B27: asked for at 5, weights move to 6 midway.
    first, second = by_request(ROWS).to_dict("records")
    assert first == {
        "version": 5,
        "rollouts": 2,
        "ended": 2,
        "sampled_by": "mixed 5-6",
        "reward": 0.5,
        "submitted_s": 10.0,
        "ended_s": 14.0,
    }
    assert (second["version"], second["rollouts"], second["ended"]) == (10, 2, 1)
    assert second["sampled_by"] == "12"
    assert pd.isna(second["ended_s"])


def test_a_run_without_validation_has_no_rows():
    assert by_request(ROWS[ROWS.status == "trained"]).empty
