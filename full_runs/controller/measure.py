"""How good is the policy that the engines hold? Held-out prompts are played; nothing is learned from them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from itertools import cycle

from full_runs.configs.record import FullConfig
from full_runs.controller.engines import Engine, Engines
from full_runs.engine.client import EngineError
from full_runs.engine.sampling import Sampling
from full_runs.tasks.environment import HELD_OUT, World
from full_runs.tasks.play import EnvironmentFailedError, Played, patient, play


async def measured(
    config: FullConfig, world: World, engines: Engines, clock: Callable[[], float]
) -> dict[str, float]:
    """`accuracy`, the mean reward, and `response_tokens`, the mean length, observations included.

    By the lab's names. Sampled as in training; rollouts without a result are left out, NaN if that is all.
    Nobody may push meanwhile: then all tokens are by one version.
    """
    asked = zip(range(config.held_out), cycle(engines.serving()), strict=False)
    played = await asyncio.gather(*(_played(config, world, engine, clock, i) for i, engine in asked))
    whole = [each for each in played if each is not None]
    if not whole:
        return {"accuracy": math.nan, "response_tokens": math.nan}
    return {
        "accuracy": sum(sum(each.rollout.token_rewards) for each in whole) / len(whole),
        "response_tokens": sum(len(each.rollout.token_ids) for each in whole) / len(whole),
    }


async def _played(
    config: FullConfig, world: World, engine: Engine, clock: Callable[[], float], number: int
) -> Played | None:
    try:
        return await play(
            world.episode(HELD_OUT + number),
            partial(engine.client.generate, sampling=Sampling(temperature=config.temperature)),
            prompt_id=HELD_OUT + number,
            group_id=HELD_OUT + number,
            temperature=config.temperature,
            clock=clock,
            within=patient(config.environment_timeout_s),
        )
    except (EnvironmentFailedError, EngineError, ValueError):
        return None  # An engine that is gone is noticed by the rollouts that it had
