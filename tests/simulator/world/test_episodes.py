"""Episodes are functions of seed, prompt and member, with the means that their laws say."""

import numpy as np
import pytest
from pydantic import ValidationError

from simulator.world.amounts import Amount
from simulator.world.episodes import DrawnEpisodes, Episode, MultiTurn, SingleTurn, turns
from simulator.world.lengths import Fixed


def drawn(law, *, seed=0, group_size=1, **more):
    settings = {"start_s": Amount(), "reward_s": Amount(), "lengths": Fixed(tokens=7)} | more
    return DrawnEpisodes(
        law, first_turn_tokens=lambda p, m: 100 + 10 * p + m, seed=seed, group_size=group_size, **settings
    )


def test_a_single_turn_is_a_start_an_answer_and_a_reward():
    law = drawn(SingleTurn(), start_s=Amount(mean=2.0), reward_s=Amount(mean=3.0))
    assert law.episode(4, 0) == Episode((140,), start_s=2.0, reward_s=3.0)


def test_turns_by_hand():
    law = MultiTurn(mean_turns=3, observation_tokens=Amount(mean=5.4), latency_s=Amount(mean=1.5))
    episode = drawn(law, group_size=2).episode(1, 1)
    assert episode == Episode((111, 7, 7), (5, 5), (1.5, 1.5))
    assert episode.action_tokens == 125
    assert episode.environment_s == 3.0


def test_one_turn_at_least_and_no_more_than_allowed():
    midpoints = (np.arange(100_000) + 0.5) / 100_000
    law = MultiTurn(mean_turns=4.0, turns_law="geometric")
    number = turns(law, midpoints)
    assert number.min() == 1
    assert number.mean() == pytest.approx(4.0, rel=2e-3)
    # P(n > 3) = (3/4)^3
    assert (number > 3).mean() == pytest.approx(27 / 64, abs=1e-4)
    assert turns(law.model_copy(update={"most_turns": 5}), midpoints).max() == 5
    assert set(turns(MultiTurn(mean_turns=1.0, turns_law="geometric"), midpoints)) == {1}


def test_whatever_is_asked_first():
    law = MultiTurn(
        mean_turns=3.0,
        turns_law="geometric",
        observation_tokens=Amount(mean=20.0, law="exponential"),
        latency_s=Amount(mean=1.0, law="pareto", tail_index=1.5, most=600.0),
    )
    forwards, backwards = drawn(law), drawn(law)
    prompts = list(range(0, 6000, 37))
    expected = {prompt: forwards.episode(prompt, 0) for prompt in prompts}
    assert {prompt: backwards.episode(prompt, 0) for prompt in reversed(prompts)} == expected
    assert drawn(law, seed=1).episode(0, 0) != expected[0]


def test_a_longer_start_moves_nothing_else():
    law = MultiTurn(mean_turns=3.0, turns_law="geometric", latency_s=Amount(mean=1.0, law="exponential"))
    one, other = (drawn(law, start_s=Amount(mean=m, law="exponential")).episode(5, 0) for m in (1.0, 2.0))
    assert other.start_s == 2 * one.start_s
    assert other._replace(start_s=one.start_s) == one


def test_a_fixed_number_is_whole():
    with pytest.raises(ValidationError, match=r"mean_turns \(2.5\)"):
        MultiTurn(mean_turns=2.5)
