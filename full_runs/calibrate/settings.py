"""From fitted constants to a configuration that `policylag simulate` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from full_runs.calibrate.fit import Constants
from simulator.config import PipelineConfig
from simulator.world.amounts import Amount
from simulator.world.decoding import LoadDependent
from simulator.world.episodes import MultiTurn
from simulator.world.lengths import Trace


def settings(base: PipelineConfig, constants: Constants, lengths_csv: Path) -> PipelineConfig:
    """`base` with the times, the lengths and the turns that were fitted.

    Args:
        base: slots, engines, groups, batches, the staleness rule: what is not fitted.
        lengths_csv: where `write_lengths` left the lengths.
    """
    a, b, c = (
        constants.engine[name].estimate
        for name in ("step_fixed_s", "step_s_per_rollout", "step_s_per_kv_token")
    )
    engine = LoadDependent(
        step_fixed_s=max(a, 1e-9),
        step_s_per_rollout=b,
        step_s_per_kv_token=c,
        prefill_s_per_token=constants.engine["prefill_s"].estimate / constants.prompt_tokens,
    )
    fields: dict[str, Any] = {
        "engine": engine,
        "prompt_tokens": constants.prompt_tokens,
        # To the trainer what it saves is work like an update's, to engines it is nothing.
        "policy_update_s": constants.policy_update_s.estimate
        + constants.save_s.estimate / base.updates_per_push
        + constants.checkpoint_s.estimate,
        "policy_update_s_per_token": constants.policy_update_s_per_token.estimate,
        "critic_updates": 0,
        "critic_update_s": 0.0,
        "push_s": constants.push_s.estimate,
        "lengths": Trace(path=str(lengths_csv)),
    }
    return PipelineConfig.model_validate(base.model_dump() | _whole(fields) | _episode(base, constants))


def write_lengths(constants: Constants, path: Path) -> None:
    """A CSV of distinct lengths in tokens, and how often each was seen."""
    values, counts = np.unique(constants.tokens, return_counts=True)
    pd.DataFrame({"tokens": values, "prob": counts / counts.sum()}).to_csv(path, index=False)


def _episode(base: PipelineConfig, constants: Constants) -> dict[str, Any]:
    """Turns and what lies between them; what a request costs is waited for as an environment is."""
    request_s = constants.engine["request_s"].estimate
    fields: dict[str, Any] = {}
    if request_s > 0:
        fields |= {"environment_start_s": Amount(mean=request_s), "environments": base.slots}
    if constants.turns.max() > 1:
        fixed = constants.turns.min() == constants.turns.max()
        fields["episode"] = MultiTurn(
            mean_turns=float(constants.turns.mean()),
            turns_law="fixed" if fixed else "geometric",
            most_turns=int(constants.turns.max()),
            observation_tokens=Amount(mean=constants.observation_tokens),
            latency_s=Amount(mean=constants.latency_s + request_s),
            slot_between_turns="kept",
        )
        fields["environments"] = base.slots
    return _whole(fields)


def _whole(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.model_dump() if hasattr(value, "model_dump") else value for name, value in fields.items()
    }
