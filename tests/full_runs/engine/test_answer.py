"""What an engine says, read token by token; and what it must not be believed."""

import pytest

from full_runs.engine.answer import read_answer, sampled_log_prob, token_versions


def choice(**changes):
    told = {
        "token_ids": [5, 880],
        "logprobs": {
            "content": [
                {"token_id": 5, "logprob": -0.25, "top_logprobs": []},
                # The likeliest comes first, and it is not the one that was sampled.
                {
                    "token_id": 512,
                    "logprob": -0.1,
                    "top_logprobs": [{"token_id": 512, "logprob": -0.1}, {"token_id": 880, "logprob": -2.3}],
                },
            ]
        },
        "weight_versions": [{"version": "3", "start": 0, "end": 1}, {"version": "4", "start": 1, "end": 2}],
        "finish_reason": "length",
    }
    return told | changes


def test_each_token_has_its_own_log_prob_and_version():
    answer = read_answer(choice(), asked_tokens=2)
    assert answer.token_ids == (5, 880)
    assert answer.log_probs == (-0.25, -2.3)
    assert answer.versions == (3, 4)
    assert answer.ended == "length"


def test_the_sampled_token_is_looked_up_by_id():
    # https://github.com/NVIDIA-NeMo/RL/issues/3297
    assert sampled_log_prob({512: -0.10, 880: -2.30}, 880) == -2.30
    with pytest.raises(ValueError, match="no log-prob of the sampled token 7"):
        sampled_log_prob({512: -0.10, 880: -2.30}, 7)


@pytest.mark.parametrize("wrong", [float("nan"), float("-inf"), 0.5])
def test_what_is_no_log_prob_is_refused(wrong):
    with pytest.raises(ValueError, match="token 1 is"):
        sampled_log_prob({1: wrong}, 1)


def test_rounding_above_zero_is_certainty():
    assert sampled_log_prob({1: 1e-7}, 1) == 0.0


@pytest.mark.parametrize(
    ("spans", "why"),
    [
        ([], "0 tokens out of 3"),
        ([{"version": "0", "start": 0, "end": 2}], "2 tokens out of 3"),
        ([{"version": "0", "start": 1, "end": 3}], "do not follow"),
        ([{"version": "0", "start": 0, "end": 2}, {"version": "1", "start": 1, "end": 3}], "do not follow"),
        ([{"version": "default", "start": 0, "end": 3}], "'default'"),
    ],
)
def test_versions_that_do_not_cover_the_tokens_are_refused(spans, why):
    with pytest.raises(ValueError, match=why):
        token_versions(spans, 3)


def test_an_empty_span_says_nothing():
    spans = [
        {"version": "default", "start": 0, "end": 0},
        {"version": "2", "start": 0, "end": 1},
        {"version": "3", "start": 1, "end": 3},
    ]
    assert token_versions(spans, 3) == (2, 3, 3)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"logprobs": None}, "0 log-probs"),
        ({"token_ids": [5]}, "1 tokens and 2 log-probs"),
        ({"finish_reason": "error"}, "'error'"),
        ({"finish_reason": None}, "None"),
    ],
)
def test_an_answer_that_lacks_something_is_refused(changes, why):
    with pytest.raises(ValueError, match=why):
        read_answer(choice(**changes), asked_tokens=2)


def test_more_tokens_than_asked_for_are_refused():
    with pytest.raises(ValueError, match="1 were asked"):
        read_answer(choice(), asked_tokens=1)
