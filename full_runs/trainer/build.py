"""From a configuration to a trainer: every rank outlines the models, rank 0 has their numbers."""

from __future__ import annotations

from algorithms.critic import freeze
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.layout import PACKED, PADDED
from full_runs.trainer.model import CausalCritic, CausalPolicy, load, outlined
from full_runs.trainer.ranks import Ranks
from full_runs.trainer.shard import half_precision, sharded, single_precision
from full_runs.trainer.update import Trainer
from full_runs.trainer.value import ShardedCritic
from simulator.lab.learner import adam, sgd


def built(config: TrainerConfig, ranks: Ranks) -> Trainer:
    """A trainer at the model's starting weights (collective)."""
    method = config.method()
    layout = PACKED if config.packed else PADDED
    precision = {"float32": single_precision, "bfloat16": half_precision}[config.precision]
    optimizer = {"adam": adam, "sgd": sgd}[config.optimizer]

    def outline() -> CausalPolicy:
        model = outlined(config.model, checkpointed=config.checkpointed)
        return CausalPolicy(model, layout=layout, logits_at_once=config.logits_at_once)

    source = CausalPolicy(load(config.model), layout=layout) if ranks.rank == 0 else None
    recipe = method.estimator.critic
    critic = None
    if recipe is not None:
        network = CausalCritic(outline())
        freeze(network, recipe.frozen)
        given = None if source is None else CausalCritic(source)
        critic = ShardedCritic(
            sharded(network, given, ranks, precision),
            recipe,
            policy_learning_rate=config.learning_rate,
            optimizer=optimizer,
            ranks=ranks,
        )
    reference = None
    if method.needs_reference:
        reference = sharded(outline().requires_grad_(False), source, ranks, precision)
    return Trainer(
        method,
        sharded(outline(), source, ranks, precision),
        ranks,
        critic=critic,
        reference=reference,
        learning_rate=config.learning_rate,
        optimizer=optimizer,
        tokens_at_once=config.tokens_at_once,
        scored_first=config.scored_first,
        max_gradient_norm=config.max_gradient_norm,
    )
