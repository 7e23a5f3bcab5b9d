"""Run folders whose learner measured a given series."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from analysis.systems.plain import POLICYLAG
from simulator.eventlog import Recorder
from tests.analysis.audit.logs import healthy

OURS = {ours: theirs for theirs, ours in POLICYLAG.metrics.items()}
TIME = np.arange(120)


def sick(seed: int = 7) -> dict[str, np.ndarray]:
    """Lag creeps up, the data is worth less and less, the ratio runs away and is clipped on one side."""
    noise = np.random.default_rng(seed).normal(size=120)
    return healthy(seed) | {
        "lag_mean": 1 + 0.05 * TIME + 0.1 * noise,
        "ess": np.linspace(0.95, 0.05, 120),
        "kl_k1": 0.6 + 0.01 * noise,
        "kl_k3": 0.7 + 0.01 * noise,
        "clip_fraction": np.linspace(0.01, 0.3, 120),
        "clip_negative": np.linspace(0.01, 0.29, 120),
        "clip_positive": np.full(120, 0.001),
        "masked_fraction": np.full(120, 0.3),
        "masked_negative": np.full(120, 0.28),
        "masked_positive": np.full(120, 0.02),
    }


def write(folder: Path, series: Mapping[str, np.ndarray], **own: float) -> Path:
    """A run folder: two rollouts of a group an update, the older `lag_max` old; 5 s of 20 s idle."""
    recorder = Recorder()
    measured = {OURS[ours]: values for ours, values in series.items() if ours in OURS}
    for i in range(len(series["update"])):
        begin, start, end = 20.0 * i, 20.0 * i + 5, 20.0 * i + 20
        for member in (0, 1):
            version = max(0, i - int(series["lag_max"][i]) * (member == 0))
            rollout = 2 * i + member
            recorder.add_rollout(
                rollout_id=rollout,
                prompt_id=i,
                group_id=i,
                member=member,
                started_s=begin,
                finished_s=start,
                enqueued_s=start,
                consumed_s=start,
                first_version=version,
                last_version=version,
                oldest_version=version,
                consumed_version=i,
                action_tokens=10 + i,
                reward=float(member and i % 3 > 0),
                status="trained",
            )
            recorder.add_segment(
                rollout_id=rollout,
                version=version,
                start_token=0,
                tokens=10 + i,
                start_s=begin,
                end_s=start,
            )
        recorder.add_update(
            {name: float(values[i]) for name, values in measured.items()} | own,
            version=i + 1,
            wait_start_s=begin,
            train_start_s=start,
            train_end_s=end,
            published_s=end,
            rollouts=2,
            tokens=20 + 2 * i,
        )
        for state, cause, since, until in (
            ("idle", "no_batch", begin, start),
            ("busy", "policy_update", start, end),
        ):
            recorder.add_interval(resource="trainer", state=state, cause=cause, start_s=since, end_s=until)
        recorder.add_interval(
            resource="engine-0/slot-0", state="busy", cause="decode", start_s=begin, end_s=end
        )
    recorder.log().write(folder)
    return folder
