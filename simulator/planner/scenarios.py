"""Plans by name: functions that return a question, for `policylag plan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simulator.planner.config import PlanConfig
from simulator.planner.roofline import Model
from simulator.world.lengths import LogNormal


def small_team(**changes: Any) -> PlanConfig:
    """8 A100, a 7B on school mathematics: plain GRPO with old log-probs and a reference model.

    Short answers (mean 300 tokens, cap 1,024), batches of 512 prompts of 8, four updates each. Training is
    most of the work and the tail is short: the barrier costs less than GPUs taken away from the trainer.

    Chosen as a case in which taking turns wins, not found as one: on H100, with batches of a quarter and
    without the reference model, splitting the GPUs is the faster way (LOG.md).
    """
    return PlanConfig(
        **{
            "model": Model(
                parameters_total=7.6e9, parameters_active=7.6e9, layers=28, kv_bytes_a_token=57_344
            ),
            "machines": 8,
            "accelerator": "a100",
            "lengths": LogNormal(mean_tokens=300, sd_tokens=150, max_tokens=1024),
            "prompt_tokens": 150,
            "rollouts_per_update": 1024,
            "updates_per_batch": 4,
            "log_prob_passes": 2,
            "rollout_shares": (0.125, 0.25, 0.375, 0.5),
            "in_flight": (1024, 2048),
            "bounds_batches": (1, 2),
            "updates": 48,
            "seeds": 2,
            **changes,
        }
    )


def frontier_750b(**changes: Any) -> PlanConfig:
    """A 750B that uses 40B a token, 4,096 H200, 100,000 rollouts in flight, long reasoning (mean 12,000).

    Batches of 2,048 prompts of 8, four updates each; engines hold 8-bit weights. Latent attention keeps 576
    numbers a token and layer (*choice*: 78 layers). The rule is GLM-5's: dropped beyond an age.
    """
    return PlanConfig(
        **{
            "model": Model(
                parameters_total=750e9,
                parameters_active=40e9,
                layers=78,
                kv_bytes_a_token=78 * 576 * 2,
                bytes_a_parameter=1.0,
            ),
            "machines": 4096,
            "accelerator": "h200",
            "lengths": LogNormal(mean_tokens=12_000, sd_tokens=12_000, max_tokens=65_536),
            "prompt_tokens": 1000,
            "rollouts_per_update": 4096,
            "updates_per_batch": 4,
            "system": "glm5",
            "rollout_shares": (0.25, 0.375, 0.5, 0.625, 0.75),
            "in_flight": (25_000, 50_000, 100_000),
            "bounds_batches": (4, 8, 16),
            "updates": 200,
            "seeds": 2,
            **changes,
        }
    )


SCENARIOS: Final[Mapping[str, Callable[[], PlanConfig]]] = {
    "small-team": small_team,
    "frontier-750b": frontier_750b,
}
