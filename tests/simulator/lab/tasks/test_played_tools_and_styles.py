"""Both games played by the small language model: learnt in seconds, and recorded as they were played."""

import numpy as np
import pytest
import torch

from simulator.lab.models.gpt import Sizes
from simulator.lab.models.warm_start import WarmStart
from simulator.lab.parts import Lesson
from simulator.lab.pretraining import once_each
from simulator.lab.tasks.game import CHOOSE, END, Game
from simulator.lab.tasks.played import Played
from simulator.lab.tasks.style_drift import STYLES, StyleDrift
from simulator.lab.tasks.tool_lookup import ToolLookup

SIZES = Sizes(width=48, depth=2, heads=2)


def lesson_of(game: Game, accuracy: float) -> Lesson:
    recipe = WarmStart(accuracy=accuracy, batch=64, learning_rate=5e-3, most_steps=600)
    task = Played(game, seed=1, sizes=SIZES, warm_start=recipe, cache=None)
    sampler = task.sampler()
    sampler.publish(0, task.policy().snapshot())
    return sampler.sample(once_each(0, 256))


@pytest.fixture(scope="module")
def calls() -> tuple[ToolLookup, Lesson]:
    game = ToolLookup(seed=1, most_turns=3, crash_probability=0.1)
    return game, lesson_of(game, 0.3)


def test_calls_are_recorded_as_the_environment_answered(calls: tuple[ToolLookup, Lesson]) -> None:
    game, (prompts, batch) = calls[0], (calls[1].prompts, calls[1].batch)
    width = batch.token_ids.shape[1]
    follows = torch.stack([game.follow(prompts, batch.token_ids, t) for t in range(width + 1)], -1)
    assert torch.equal(follows[:, :-1] == CHOOSE, batch.action_mask)
    observed = follows[:, :-1] >= 0
    assert torch.equal(batch.token_ids[observed], follows[:, :-1][observed])
    assert torch.equal(batch.truncated, follows[:, -1] != END)
    assert torch.equal(batch.returns, game.rewards(prompts, batch.token_ids, batch.action_mask))


def test_a_crash_terminates_and_earns_nothing(calls: tuple[ToolLookup, Lesson]) -> None:
    game, batch = calls[0], calls[1].batch
    crashed = game.crashed(batch.token_ids)
    assert crashed.any()
    assert not batch.truncated[crashed].any()
    assert (batch.returns[crashed] == 0).all()
    assert batch.returns[~crashed].mean() > 0.25


def test_good_writing_in_all_styles_is_where_the_drift_begins() -> None:
    # Prompts beyond the last shift like the third style: a third of good writing earns its reward.
    game = StyleDrift(seed=1, shifts=(1000, 2000))
    lesson = lesson_of(game, 0.25)
    tokens = lesson.batch.token_ids
    assert tokens.shape == (256, 5)
    assert game.quality(lesson.prompts, tokens).double().mean() > 0.6
    shares = torch.bincount(tokens[:, 0], minlength=STYLES + 3)[STYLES:] / 256
    # Five standard errors, and a fifth for what a short warm start has not learnt.
    assert ((shares - 1 / 3).abs() < 5 * np.sqrt(2 / 9 / 256) + 0.07).all()
    assert (lesson.batch.returns == game.rewards(lesson.prompts, tokens, lesson.batch.action_mask)).all()
