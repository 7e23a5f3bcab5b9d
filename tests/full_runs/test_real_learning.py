"""The ready settings, as they are: does reward rise, and can the run be read like any other?

Some minutes each. Rise: mean reward of the last fifth of the updates against the first, Welch's interval.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

from full_runs.configs.ready import READY
from tests.full_runs.real import needs_engines, ran

pytestmark = needs_engines()


@dataclass(frozen=True)
class Ended:
    """A finished run."""

    name: str
    folder: Path

    @property
    def updates(self) -> pd.DataFrame:
        return pd.read_parquet(self.folder / "updates.parquet")


@pytest.fixture(scope="module", params=["tiny-cpu", "tiny-cpu-groups"])
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    out = tmp_path_factory.mktemp("learning") / "out"
    done = ran("full", request.param, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(out / "run" / "report.html")
    return Ended(request.param, out / "run")


def test_reward_rises(ended: Ended) -> None:
    reward = ended.updates["reward"].to_numpy(dtype=float)
    fifth = len(reward) // 5
    change = stats.ttest_ind(reward[-fifth:], reward[:fifth], equal_var=False)
    low, high = change.confidence_interval(0.95)
    print(f"{ended.name}: by {reward[-fifth:].mean() - reward[:fifth].mean():+.3f} [{low:+.3f}, {high:+.3f}]")
    assert low > 0


def test_nothing_was_refused_dropped_or_too_old(ended: Ended) -> None:
    config, updates = READY[ended.name](), ended.updates
    assert list(updates["version"]) == list(range(1, config.updates + 1))
    assert (updates["refused"] == 0).all()
    assert updates["oldest_lag_max"].max() >= 1  # asynchronous
    rollouts = pd.read_parquet(ended.folder / "rollouts.parquet")
    assert (rollouts["status"] == "trained").sum() == config.updates * config.rollouts_per_update
    assert not (rollouts["status"] == "dropped").any()


def test_it_is_read_like_a_simulated_run(ended: Ended) -> None:
    page = (ended.folder / "report.html").read_text()
    assert "ends at accuracy" in page
    audited = ran("audit", str(ended.folder), "--json", "--fail-on", "problem")
    assert audited.returncode == 0, audited.stdout
    assert json.loads(audited.stdout)
    trace = json.loads((ended.folder / "trace.json").read_text())
    assert {event["name"] for event in trace["traceEvents"]} >= {"decode", "policy_update", "push"}
