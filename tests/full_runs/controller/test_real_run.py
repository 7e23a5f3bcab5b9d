"""A real run in small: engines, trainer, pushes; with an engine killed half-way and environments that fail.

Every prompt that was ever asked for is trained once, or its row says what became of it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import pytest

from full_runs.configs.record import FullConfig
from full_runs.tasks.environment import Ask, Episode, Step
from full_runs.tasks.games import GameWorld
from simulator.config.staleness import DropByAge
from tests.full_runs.real import needs_engines, now

pytestmark = needs_engines()
CONFIG = FullConfig(
    estimator="sao",
    critic_only_updates=0,
    # What the engine that is killed after the second leaves behind is too old for the last.
    updates=8,
    rollouts_per_update=8,
    in_flight=12,
    measure_every=3,
    held_out=20,
    staleness=DropByAge(max_lag_updates=3),
    environment_timeout_s=1.0,
    engine_ready_timeout_s=1500.0,
    stall_limit_s=2400.0,
)


def raises(prompt_id: int) -> bool:
    return prompt_id % 10 == 3


def hangs(prompt_id: int) -> bool:
    return prompt_id % 10 == 7


def rewards_nonsense(prompt_id: int) -> bool:
    return prompt_id % 20 == 5


def is_bad(prompt_id: int) -> bool:
    return raises(prompt_id) or hangs(prompt_id) or rewards_nonsense(prompt_id)


class Faulty:
    """A game whose environment sometimes raises, hangs, or rewards with what is no number."""

    def __init__(self, world: GameWorld) -> None:
        self.world = world
        self.most_tokens = world.most_tokens

    def episode(self, prompt_id: int) -> Episode:
        return FaultyEpisode(self.world.episode(prompt_id), prompt_id)


class FaultyEpisode:
    def __init__(self, episode: Episode, prompt_id: int) -> None:
        self.episode, self.prompt_id = episode, prompt_id

    async def reset(self) -> tuple[tuple[int, ...], Ask]:
        return await self.episode.reset()

    async def step(self, token_ids: Sequence[int]) -> Step:
        if raises(self.prompt_id):
            raise RuntimeError("a tool broke")
        if hangs(self.prompt_id):
            await asyncio.sleep(3600)
        if rewards_nonsense(self.prompt_id):
            return Step(reward=math.nan)
        return await self.episode.step(token_ids)


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, pd.DataFrame], Mapping[str, int], list[str]]:
    import psutil

    from full_runs.controller.course import JOURNAL, Parts
    from full_runs.controller.course import run as run_course
    from full_runs.controller.journal import event_log, failures, lines
    from full_runs.run import trainer_config, world_of
    from full_runs.tasks.tiny_model import TinyModel, made, save
    from full_runs.trainer.client import TrainerClient

    place: Path = tmp_path_factory.mktemp("run")
    world = world_of(CONFIG)
    vocabulary = world.game.vocabulary
    save(made(TinyModel(), vocabulary=vocabulary, positions=32), place / "model", vocabulary=vocabulary)
    notes: list[str] = []

    def told(version: int, metrics: Mapping[str, float]) -> None:  # noqa: ARG001
        if version == 2:
            servers = [
                child for child in psutil.Process().children() if "api_server" in " ".join(child.cmdline())
            ]
            assert len(servers) == 1
            servers[0].kill()

    with TrainerClient(place / "trainer") as trainer:
        trainer.start(trainer_config(CONFIG, place / "model"), 1)
        parts = Parts(
            world=Faulty(world), model=place / "model", trainer=trainer, folder=place / "out",
            note=notes.append, told=told,
        )  # fmt: skip
        now(run_course(CONFIG, parts))
    facts = list(lines(place / "out" / JOURNAL))
    tables = event_log(facts).tables()
    return {name: table.to_pandas() for name, table in tables.items()}, failures(facts), notes


def test_every_rollout_has_one_fate(run):
    rollouts = run[0]["rollouts"]
    assert rollouts["rollout_id"].is_unique
    assert rollouts["prompt_id"].is_unique  # none is asked for twice, whatever died
    assert set(rollouts["status"]) <= {"trained", "dropped", "queued", "in_flight", "waiting"}
    trained = rollouts[rollouts["status"] == "trained"]
    assert len(trained) == CONFIG.updates * CONFIG.rollouts_per_update
    # What was asked for before the last batch is not forgotten: ids have no gap.
    assert sorted(rollouts["rollout_id"]) == list(range(len(rollouts)))


def test_an_engine_that_is_killed_is_started_again_and_its_prompts_with_it(run):
    tables, failures, notes = run
    assert failures["engine"] > 0
    assert any("is started again" in note for note in notes)
    assert not (tables["rollouts"]["reason"] == "engine_failed").any()


def test_environments_that_raise_hang_or_reward_nonsense_are_excluded_and_counted(run):
    tables, failures, _ = run
    rollouts = tables["rollouts"]
    bad, over = rollouts["prompt_id"].map(is_bad), rollouts["status"] == "dropped"
    assert not (rollouts["status"] == "trained")[bad].any()
    failed = rollouts[over & (rollouts["reason"] == "environment_failed")]
    assert failed["prompt_id"].map(is_bad).all()
    for kind in (raises, hangs, rewards_nonsense):
        assert failed["prompt_id"].map(kind).any()
    assert failures["environment"] == (rollouts["reason"] == "environment_failed").sum() > 0


def test_versions_are_the_engines_and_lags_within_the_bound(run):
    tables, _, _ = run
    trained = tables["rollouts"][tables["rollouts"]["status"] == "trained"]
    lag = trained["consumed_version"] - trained["oldest_version"]
    assert lag.between(0, 3).all()
    assert (trained["last_version"] >= trained["first_version"]).all()
    assert trained["last_version"].max() > 0  # pushes reached the engine, the one started again too
    said = tables["segments"].groupby("rollout_id")["tokens"].sum()
    assert (said[trained["rollout_id"]].to_numpy() == trained["action_tokens"].to_numpy()).all()


def test_every_update_was_published_in_order_of_time(run):
    updates = run[0]["updates"]
    assert list(updates["version"]) == list(range(1, CONFIG.updates + 1))
    assert (updates["published_s"] >= updates["train_end_s"]).all()
    assert (updates["train_start_s"] >= updates["wait_start_s"]).all()
    assert updates["reward"].between(0, 1).all()
    measured = updates.set_index("version")["accuracy"].dropna()
    # After every third update, and later where no engine was there to be asked.
    assert len(measured)
    assert measured.index.min() >= CONFIG.measure_every
    assert (measured.index.diff().dropna() >= CONFIG.measure_every).all()
    assert measured.between(0, 1).all()
