"""All settings of a full run, checked once; no engine, no torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias, final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from full_runs.configs import cores
from full_runs.configs.computing import Computing
from full_runs.configs.gpus import OnGpus
from full_runs.configs.hosts import OnHosts, is_loopback
from full_runs.configs.language import Language
from full_runs.configs.placement import Placement, placed
from full_runs.configs.text_worlds import Questions, ReasoningGym, Verifiers
from simulator.config import PipelineConfig, StalenessRule, staleness_rule
from simulator.config.staleness import BoundedLag
from simulator.lab.names import CRITICS, SINGLE, EstimatorName
from simulator.rules.eviction import keep_all
from simulator.rules.staleness import Staleness
from simulator.world.lengths import Fixed

Count: TypeAlias = Annotated[int, Field(ge=1, le=10**7)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=1e6)]
Rate: TypeAlias = Annotated[float, Field(gt=0, le=1e6)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class Addition(_Record):
    """Add two numbers of one to so many digits."""

    kind: Literal["addition"] = "addition"
    most_digits: Annotated[int, Field(ge=1, le=8)] = 2


@final
class Lookup(_Record):
    """Follow pointers that only the environment knows, over several turns."""

    kind: Literal["lookup"] = "lookup"
    most_turns: Annotated[int, Field(ge=2, le=40)] = 4
    observation_tokens: Annotated[int, Field(ge=1, le=64)] = 1


World: TypeAlias = Annotated[
    Addition | Lookup | Questions | ReasoningGym | Verifiers, Field(discriminator="kind")
]


@final
class FullConfig(OnHosts, OnGpus, cores.OnCores, Language, Computing):
    """One run on real engines and a real trainer, on processors or on GPUs.

    Only the first has been executed so far.
    """

    world: World = Addition()
    """What is learned."""
    width: Annotated[int, Field(ge=8, le=4096, multiple_of=8)] = 64
    """Of the tiny model that is made here."""
    depth: Annotated[int, Field(ge=1, le=64)] = 2
    heads: Annotated[int, Field(ge=1, le=64)] = 4
    warm_start_accuracy: Annotated[float, Field(gt=0, le=1)] = 0.3
    """Mean reward at which teaching by demonstrations stops and learning by reward begins."""

    estimator: EstimatorName = "sao"
    learning_rate: Rate = 2e-4
    """The policy's."""
    critic_learning_rate_ratio: Rate | None = None
    """Critic's learning rate over the policy's; None is the estimator's own."""
    critic_only_updates: Annotated[int, Field(ge=0)] | None = None
    """First updates that train the critic alone; None is the estimator's own."""
    group_size: Count = 1
    """Rollouts that answer one prompt."""
    rollouts_per_update: Count = 64
    updates: Count = 150
    updates_per_push: Count = 1
    push_over: Literal["folder", "wire"] = "folder"
    """New weights are written to a folder that engines read, or sent to them tensor by tensor."""
    wire_timeout_s: Seconds = 60.0
    """Of one tensor, and of joining: an engine that takes longer is given up, and started again."""
    updates_per_checkpoint: Count = 10
    """At least so many: a checkpoint follows a push. A run that was killed goes on from its last one."""
    measure_every: Count = 10
    """Updates at least; then held-out prompts are played, after a push."""
    held_out: Count = 128
    """Prompts that are measured on."""
    ranks: Count = 1
    """Processes of the trainer, over all of its nodes."""

    engines: Count = 1
    in_flight: Count = 64
    """Rollouts under way at once, over all engines."""
    engine_cache_gb: Annotated[int, Field(ge=1, le=10_000)] = 1
    """On processors: memory of an engine for keys and values."""
    keys_at_push: Literal["keep", "recompute"] = "recompute"
    """Running requests go on with keys and values of the old weights, or compute them again."""
    temperature: Annotated[float, Field(gt=0, le=100)] = 1.0
    staleness: Annotated[StalenessRule, Field(discriminator="kind")] = BoundedLag(eta_batches=2)
    incomplete_group: Literal["drop", "retry", "pad"] = "drop"
    """What becomes of a group that lost a member to its environment."""
    distinct_prompts: Count | None = None
    """So many prompts come again and again; None: no prompt ever comes back."""

    environment_timeout_s: Seconds = 60.0
    """Of one call of an environment."""
    engine_attempts: Count = 5
    """A rollout is given to an engine so often before it is given up."""
    engine_restarts: Annotated[int, Field(ge=0)] = 2
    """An engine is started again so often; then it is taken out."""
    engine_ready_timeout_s: Seconds = 900.0
    trainer_restarts: Annotated[int, Field(ge=0)] = 2
    """A trainer that ended is started again from its last checkpoint so often; then the run ends."""
    stall_limit_s: Seconds = 1800.0
    """Without an update for so long the run ends, and says who waits for what."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.estimator not in SINGLE and self.group_size < 2:
            raise ValueError(f"group_size is {self.group_size}: {self.estimator} compares members of a group")
        if self.estimator.startswith("sao") and self.group_size != 1:
            raise ValueError(f"group_size is {self.group_size}: {self.estimator} takes one rollout a prompt")
        if self.in_flight % self.engines:
            raise ValueError(f"in_flight ({self.in_flight}) is not a multiple of engines ({self.engines})")
        if self.width % self.heads:
            raise ValueError(f"width ({self.width}) is not a multiple of heads ({self.heads})")
        if self.estimator not in CRITICS:
            given = (self.critic_only_updates, self.critic_learning_rate_ratio)
            if given != (None, None):
                raise ValueError(f"critic settings were given, and {self.estimator} has no critic")
        self._suits_its_model()
        self._suits_its_machines()
        self.rule()
        return self

    def _suits_its_model(self) -> None:
        if self.model is None and self.gpus:
            raise ValueError(f"gpus is {self.gpus} and model None: the tiny model is for processors")
        if (self.model is None) is isinstance(self.world, Questions | ReasoningGym | Verifiers):
            raise ValueError(
                f"world is {self.world.kind} and model {self.model}: a model with a tokenizer answers"
                " questions, the tiny one plays"
            )
        python = self.world.python if isinstance(self.world, Questions | ReasoningGym) else None
        if python is not None and self.environment_timeout_s <= python.wall_s:
            raise ValueError(
                f"environment_timeout_s ({self.environment_timeout_s:g}) is not more than world.python.wall_s"
                f" ({python.wall_s:g}): a slow program would count as a broken environment"
            )
        if self.model and self.tokens_at_once is not None and self.tokens_at_once < self.longest_tokens:
            raise ValueError(
                f"tokens_at_once ({self.tokens_at_once}) is less than max_prompt_tokens"
                f" ({self.max_prompt_tokens}) + max_response_tokens ({self.max_response_tokens})"
            )

    def _suits_its_machines(self) -> None:
        if self.ranks % self.trainer_nodes:
            raise ValueError(
                f"ranks ({self.ranks}) is not a multiple of trainer_nodes ({self.trainer_nodes})"
            )
        if self.engine_urls and len(self.engine_urls) != self.engines:
            raise ValueError(f"engine_urls names {len(self.engine_urls)}, and engines is {self.engines}")
        far = [url for url in self.engine_urls if not is_loopback(urlsplit(url).hostname or "")]
        if self.push_over == "wire" and far and self.rendezvous is None:
            raise ValueError(
                f"push_over is wire, engine_urls names {far[0]}, which is not this host, and rendezvous is"
                " None: engines join the trainer at its host"
            )
        cores.check(
            self, ranks=self.ranks, trainer_nodes=self.trainer_nodes, engines=self.engines,
            elsewhere=len(self.engine_urls), gpus=self.gpus,
        )  # fmt: skip
        if not self.gpus:
            return
        wanted = self.ranks + self.engines * self.tensor_parallel
        if wanted != self.gpus and not self.shares_a_gpu:
            raise ValueError(
                f"ranks ({self.ranks}) + engines ({self.engines}) * tensor_parallel ({self.tensor_parallel})"
                f" are {wanted} GPUs, and gpus is {self.gpus}"
            )
        if self.ranks > self.trainer_nodes * self.gpus_per_node:
            raise ValueError(
                f"ranks ({self.ranks}) are more than trainer_nodes ({self.trainer_nodes}) * gpus_per_node"
                f" ({self.gpus_per_node})"
            )
        self.placement()

    def placement(self) -> Placement:
        """Which GPU is whose.

        Raises:
            ValueError: an engine finds no room.
        """
        return placed(
            self.ranks,
            self.engines,
            trainer_nodes=self.trainer_nodes,
            tensor_parallel=self.tensor_parallel,
            gpus_per_node=self.gpus_per_node,
            shared=self.shares_a_gpu,
        )

    @property
    def shares_a_gpu(self) -> bool:
        """Trainer and engine are both on the one GPU that there is."""
        return self.gpus == self.ranks == self.engines == self.tensor_parallel == 1

    def pipeline(self) -> PipelineConfig:
        """The same run as the simulator knows it; its seconds are not filled in."""
        return PipelineConfig(
            slots=self.in_flight,
            engines=self.engines,
            group_size=self.group_size,
            rollouts_per_update=self.rollouts_per_update,
            batches_per_push=self.updates_per_push,
            updates=self.updates,
            staleness=self.staleness,
            lengths=Fixed(tokens=1),
            seed=self.seed,
        )

    def rule(self) -> Staleness:
        """The decisions about old data.

        Raises:
            ValueError: one of them is not carried out here.
        """
        rule = staleness_rule(self.pipeline())
        refused = {
            "stops unfinished groups for their age": rule.abort is not keep_all,
            "asks the same prompt again": rule.replacement != "new_prompt",
            "shares accelerators between engines and trainer": rule.colocated,
            f"wants running rollouts to {rule.on_sync.running}": rule.on_sync.running
            not in ("keep", "recompute"),
            f"pushes to engines {rule.on_sync.engines.replace('_', ' ')}": rule.on_sync.engines != "together",
        }
        if why := [name for name, is_so in refused.items() if is_so]:
            raise ValueError(
                f"staleness {self.staleness.kind}: it {', '.join(why)}; full runs do not, so far"
            )
        return rule
