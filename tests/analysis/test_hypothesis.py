import dataclasses
import json

import pytest

from simulator.studies.hypothesis import Hypothesis

GOOD = {
    "id": "H1",
    "claim": "SAO ends higher than GRPO",
    "source": "ours",
    "metric": "final_accuracy",
    "kind": "paired_difference",
    "better_arm": "sao",
    "worse_arm": "grpo",
}


def test_a_claim_survives_being_stored():
    stored = json.loads(json.dumps(dataclasses.asdict(Hypothesis(**GOOD))))
    assert Hypothesis(**stored) == Hypothesis(**GOOD)


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
    ],
)
def test_a_claim_that_cannot_be_judged_is_refused_at_birth(changed, message):
    with pytest.raises(ValueError, match=message):
        Hypothesis(**{**GOOD, **changed})
