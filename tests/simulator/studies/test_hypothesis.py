import dataclasses
import json

import pytest

from simulator.studies.hypothesis import Hypothesis

GOOD = {
    "id": "H1",
    "claim": "SAO ends higher than GRPO",
    "source": "ours",
    "metric": "final_score",
    "kind": "paired_difference",
    "better_arm": "sao",
    "worse_arm": "grpo",
}
FIT = {
    "id": "F1",
    "claim": "the largest stable learning rate falls as one over the lag",
    "source": "ours",
    "metric": "boundary_exponent",
    "kind": "fitted",
    "between": (0.8, 1.2),
    "arms": ("a", "b"),
}


@pytest.mark.parametrize("claim", [GOOD, FIT])
def test_a_claim_survives_being_stored(claim):
    stored = json.loads(json.dumps(dataclasses.asdict(Hypothesis(**claim))))
    assert Hypothesis(**stored) == Hypothesis(**claim)
    assert hash(Hypothesis(**stored)) == hash(Hypothesis(**claim))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"claim": " "}, "claim is empty"),
        ({"kind": "vibes"}, "unknown kind 'vibes'"),
        ({"direction": "up"}, "direction is 'up'"),
        ({"minimum_difference": -0.1}, "minimum_difference -0.1"),
        ({"minimum_difference": float("nan")}, "minimum_difference nan"),
        ({"confidence": 95.0}, "confidence 95.0"),
        ({"worse_arm": None}, "compares two arms"),
        ({"worse_arm": "sao"}, "compares two arms"),
        ({"threshold": 0.1}, "has no threshold"),
        ({"kind": "threshold", "threshold": 0.1}, "one arm"),
        ({"kind": "threshold", "worse_arm": None}, "a threshold claim has a threshold"),
        ({"kind": "time_to_target"}, "better when it is lower"),
        ({"better_arm": None}, "better_arm is empty"),
        ({"between": (0.0, 1.0)}, "only a fitted claim"),
        ({"arms": ("sao",)}, "only a fitted claim"),
    ],
)
def test_a_claim_that_cannot_be_judged_is_refused_at_birth(changed, message):
    with pytest.raises(ValueError, match=message):
        Hypothesis(**{**GOOD, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"metric": "final_score"}, "'final_score' is not fitted; fitted are boundary_exponent"),
        ({"between": None}, "not a lower and a higher value"),
        ({"between": (1.2, 0.8)}, "not a lower and a higher value"),
        ({"between": (0.8, float("inf"))}, "not a lower and a higher value"),
        ({"between": (0.8, 1.0, 1.2)}, "not a lower and a higher value"),
        ({"better_arm": "a"}, "no arm is better"),
        ({"worse_arm": "a"}, "no arm is better"),
        ({"minimum_difference": 0.1}, "no arm is better"),
        ({"threshold": 0.1}, "no arm is better"),
        ({"arms": ("a", "a")}, "name one twice"),
    ],
)
def test_a_fitted_claim_says_what_lies_between_what(changed, message):
    with pytest.raises(ValueError, match=message):
        Hypothesis(**{**FIT, **changed})
