"""What does a run on processors hold in memory? And, with times that were measured, how old is its data?

Memory is the arithmetic of GPUs: a rank of the trainer where that has a GPU, an engine's cache of keys and
values where that has what its GPUs leave. Interpreters and libraries are not counted. How fast processors are
nothing here knows: that comes from a run, by `policylag calibrate RUN --out FOLDER`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

from full_runs.calibrate.recorded import of_full_run
from full_runs.configs.record import Addition, FullConfig, Lookup
from full_runs.plan.architecture import Architecture, architecture
from full_runs.plan.expected import SEEDS, simulated_updates
from full_runs.plan.fits import method_of
from full_runs.plan.times import BYTES
from full_runs.plan.trainer_memory import Load, trainer_bytes
from full_runs.tasks.games import game_world
from full_runs.tasks.tiny_model import TinyModel, outline
from simulator.command_line import BadInputError, bad_input
from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import run
from simulator.planner.measure import Numbers, estimates, measure
from simulator.progress import progress
from simulator.world.lengths import Trace

MEASURED: Final = (
    "engine", "prompt_tokens", "policy_update_s", "policy_update_s_per_token", "critic_updates",
    "critic_update_s", "push_s", "lengths", "episode", "environment_start_s",
)  # fmt: skip
"""Fields of a pipeline that a calibration fits; the others are the configuration's own."""
_AN_ATTENTION_WEIGHT: Final = "layers.0.self_attn.q_proj.weight"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnProcessors:
    """A plan."""

    config: FullConfig
    model: Architecture
    rank_bytes: Mapping[str, float]
    """Of one rank of the trainer, by what it is for; their sum is the peak."""
    engine_bytes: Mapping[str, float]
    """Of one engine, all of its processes together."""
    capacity_tokens: int
    """Keys and values that an engine has room for."""
    longest_tokens: int
    """Of a prompt and its response."""
    simulated: Numbers | None
    """None: no times were given."""
    updates: int
    """Of each simulation."""

    @property
    def here_bytes(self) -> float:
        """On the controller's host."""
        ranks = self.config.ranks // self.config.trainer_nodes
        engines = 0 if self.config.engine_urls else self.config.engines
        return ranks * sum(self.rank_bytes.values()) + engines * sum(self.engine_bytes.values())


def memory_here() -> float:
    """Bytes that this host has."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def plan(
    config: FullConfig, times: Path | None, *, silent: bool = True, here: Callable[[], float] = memory_here
) -> OnProcessors:
    """Check, and simulate if there are times; nothing is started or downloaded.

    Args:
        times: a folder that `policylag calibrate --out` wrote; None simulates nothing.
        here: how many bytes this host has.

    Raises:
        BadInputError: an unknown model, something that cannot fit, or no calibration.
    """
    with bad_input("full: "):
        model, longest = _model(config)
        found = _plan(config, model, longest)
        if found.capacity_tokens < longest and not config.engine_urls:
            raise ValueError(
                f"this cannot fit: a rollout of {longest:,} tokens, and engine_cache_gb"
                f" ({config.engine_cache_gb}) has room for {found.capacity_tokens:,}"
            )
        if found.here_bytes > here():
            raise ValueError(
                f"this cannot fit: ranks and engines need {found.here_bytes / 1e9:,.1f} GB, and this host has"
                f" {here() / 1e9:,.1f} GB"
            )
        return found if times is None else _simulated(found, _fitted(times), silent=silent)


def _model(config: FullConfig) -> tuple[Architecture, int]:
    """What is trained, and the longest rollout."""
    if not isinstance(config.world, Addition | Lookup):
        assert config.model is not None  # the configuration is checked
        return architecture(config.model), config.longest_tokens
    world = game_world(config.world, seed=config.seed)
    tiny = outline(TinyModel(width=config.width, depth=config.depth, heads=config.heads))
    named = {
        "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
        "kv_heads": "num_key_value_heads", "head_dim": "head_dim", "intermediate": "intermediate_size",
    }  # fmt: skip
    counts = {ours: tiny[theirs] for ours, theirs in named.items()}
    return Architecture(**counts, vocabulary=world.game.vocabulary, tied=True), world.most_tokens


def _plan(config: FullConfig, model: Architecture, longest: int) -> OnProcessors:
    method, number = method_of(config), BYTES[config.precision]
    critic = method.estimator.critic
    a_rank = math.ceil(config.rollouts_per_update * longest / config.ranks)
    load = Load(
        ranks=config.ranks,
        precision_bytes=number,
        micro_batch_tokens=max(longest, min(a_rank, config.tokens_at_once or a_rank)),
        checkpointed=config.checkpointed,
        critic=critic is not None,
        attention_frozen=critic is not None and critic.frozen(_AN_ATTENTION_WEIGHT),
        reference=method.needs_reference,
    )
    cache_bytes = config.engine_cache_gb * 2**30
    return OnProcessors(
        config=config,
        model=model,
        rank_bytes=trainer_bytes(model, load),
        engine_bytes={"weights": float(model.total * number), "keys and values": float(cache_bytes)},
        capacity_tokens=cache_bytes // (model.kv_numbers * number),
        longest_tokens=longest,
        simulated=None,
        updates=0,
    )


def _fitted(folder: Path) -> PipelineConfig:
    file = folder / "config.json"
    with bad_input("full: times_from: "):
        given = PipelineConfig.model_validate_json(file.read_text(encoding="utf-8"))
    if isinstance(given.lengths, Trace):
        # Its path was written where the calibration ran.
        beside = folder / Path(given.lengths.path).name
        if not beside.is_file():
            raise BadInputError(f"full: times_from: {beside} is not there, and {file} names it")
        given = given.model_copy(update={"lengths": given.lengths.model_copy(update={"path": str(beside)})})
    return given


def _simulated(found: OnProcessors, fitted: PipelineConfig, *, silent: bool) -> OnProcessors:
    config = found.config
    times = {name: getattr(fitted, name) for name in MEASURED}
    whole = {
        name: value.model_dump() if hasattr(value, "model_dump") else value for name, value in times.items()
    }
    environments = {"environments": config.in_flight} if fitted.environments else {}
    updates = simulated_updates(config)
    base = of_full_run(config).model_dump() | whole | environments | {"updates": updates}
    seen = []
    with progress(SEEDS, "simulations", silent=silent) as advance:
        for number in range(SEEDS):
            seen.append(measure(run(PipelineConfig.model_validate(base | {"seed": config.seed + number}))))
            advance()
    return replace(found, simulated=estimates(seen), updates=updates)
