"""What may change how tokens are drawn, without entering ratios unseen."""

import pytest

from full_runs.engine.sampling import NEUTRAL, Sampling


@pytest.mark.parametrize(
    "setting",
    [
        {"top_p": 0.9},
        {"top_k": 20},
        {"min_p": 0.1},
        {"presence_penalty": 0.5},
        {"frequency_penalty": 0.5},
        {"repetition_penalty": 1.1},
    ],
)
def test_what_the_trainer_cannot_know_is_refused_by_name(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        Sampling(**setting)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_a_temperature_is_positive(temperature):
    with pytest.raises(ValueError, match="temperature"):
        Sampling(temperature=temperature)


def test_a_request_leaves_nothing_to_the_servers_defaults():
    told = Sampling(temperature=0.7).request(max_tokens=3, stop_token_ids=(9,), seed=None)
    assert NEUTRAL.items() <= told.items()
    assert (told["temperature"], told["max_tokens"], told["stop_token_ids"]) == (0.7, 3, [9])
    assert told["logprobs"] == 0  # that of the sampled token, and no others
    assert told["ignore_eos"]
    assert "seed" not in told
