"""The tables of runs that the simulator really made: laws that hold for any run, end to end."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.measures.idle import idle_by_cause, shares
from analysis.measures.lag import of_status, rollout_lags
from analysis.measures.lag_split import PARTS, lag_split
from analysis.measures.lag_table import WEIGHTINGS, lag_table
from analysis.measures.lengths import length_bias, length_table
from analysis.measures.levels import places
from analysis.measures.outcomes import idle_shares
from analysis.measures.throughput import account, check_ledger, window_s
from analysis.report.build import render, report_for_study
from analysis.runs import Run, from_log, load_run
from analysis.trace.write import chrome_trace
from simulator.config import DropByAge, Sync
from simulator.experiments import groups, learning, single
from simulator.lab.run import learn
from simulator.pipeline.pipeline import run as simulate
from simulator.rules.on_sync import abort_and_restart, rolling
from simulator.rules.staleness import unbounded
from simulator.world.decoding import LoadDependent
from simulator.world.lengths import DeepSeekR1
from tests.analysis.trace.test_write import check_format

SMALL = {"slots": 64, "engines": 4, "rollouts_per_update": 16, "updates": 40}


LOADED = SMALL | {
    "engine": LoadDependent(kv_capacity_tokens=60_000, prefill_s_per_token=1e-4),
    "prompt_tokens": 500,
    "lengths": DeepSeekR1(max_tokens=20_000),
}
"""Engines that slow down, fill up, and stand still for a push."""


def recorded(config, **rule) -> Run:
    changed = replace(unbounded(), **rule) if rule else None
    return from_log(simulate(config, rule=changed).log, arm="arm", seed=0, clock="simulated")


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {
        "groups": recorded(groups(**SMALL)),
        "dropping": recorded(groups(**SMALL, staleness=DropByAge(max_lag_updates=8))),
        "sync": recorded(groups(**SMALL, staleness=Sync())),
        "single": recorded(single(**SMALL)),
        "rolling": recorded(single(**LOADED), on_sync=rolling()),
        "restarting": recorded(single(**LOADED), on_sync=abort_and_restart()),
    }


@pytest.fixture(params=["groups", "dropping", "sync", "single", "rolling", "restarting"])
def run(runs, request) -> Run:
    return runs[request.param]


def test_parts_of_the_lag_sum_to_it_and_it_is_the_oldest_tokens(run):
    split = lag_split(run.rollouts, run.updates).set_index("rollout_id").sort_index()
    oldest = rollout_lags(run.rollouts, run.segments).set_index("rollout_id")["oldest"].sort_index()
    assert (split[list(PARTS)].sum(axis=1) == split["lag"]).all()
    assert (split["lag"] == oldest).all()
    # A rollout of two versions decoded across what lies between them.
    versions = run.rollouts.set_index("rollout_id").loc[split.index]
    assert (split["generation"] >= versions["last_version"] - versions["first_version"]).all()


def test_who_waits_for_nobody_does_not_age_in_its_group(runs):
    assert lag_split(runs["single"].rollouts, runs["single"].updates)["group_wait"].sum() == 0
    waited = lag_split(runs["groups"].rollouts, runs["groups"].updates)["group_wait"]
    assert waited.sum() > 0
    # Synchronous: nothing is published while anything waits, but a batch is four updates.
    split = lag_split(runs["sync"].rollouts, runs["sync"].updates)
    assert split[["generation", "group_wait", "queue"]].to_numpy().sum() == 0
    assert split["trainer_ahead"].mean() == 1.5


def test_what_a_push_cuts_off_aged_while_it_decoded_and_its_length_is_unknown(runs):
    own = runs["restarting"]
    dropped = of_status(lag_split(own.rollouts, own.updates), ("dropped",))
    assert len(dropped) > 0
    assert (dropped["generation"] == dropped["lag"]).all()
    table = length_table(own.rollouts).set_index("fate")
    assert (table["unfinished"] == table["rollouts"])["dropped: restarted"]
    assert table["unfinished"].drop("dropped: restarted").sum() == 0


def test_a_rule_that_drops_the_old_trains_on_what_is_short(runs):
    table = lag_table(runs["dropping"].rollouts, runs["dropping"].segments)
    rows = table.set_index(["population", "weighting"])["mean"]
    for name in ("rollout", "token"):
        assert rows["trained", name] < rows["offered", name] < rows["dropped", name]
    assert length_bias(runs["dropping"].rollouts)["length_ratio"] < 1
    assert 0 < length_bias(runs["dropping"].rollouts)["length_ks"] < 1


def test_every_rollout_and_token_is_in_one_account(run):
    check_ledger(run)
    table = account(run)
    assert table["rollouts"].iloc[0] == table["rollouts"].iloc[1:].sum() == len(run.rollouts)
    assert table["tokens"].iloc[0] == table["tokens"].iloc[1:].sum() == run.rollouts["action_tokens"].sum()
    end_s = np.array([np.inf])
    left = {name: int(level.at(end_s)[0]) for name, level in places(run.rollouts).items()}
    counts = run.rollouts["status"].value_counts()
    assert left == {
        "in flight": counts.get("in_flight", 0),
        "waiting": counts.get("waiting", 0),
        "queue": counts.get("queued", 0),
    }


def test_busy_and_idle_fill_any_window(run):
    _, end_s = window_s(run)
    for window in ((0.0, end_s), (end_s / 3, end_s / 2)):
        table = shares(run.intervals, window).set_index("resource")
        assert table["idle"].between(0, 1).all()
        assert (table["busy"] + table["idle"]).to_numpy() == pytest.approx(1.0)
        causes = idle_by_cause(run.intervals, window).groupby("resource")["idle"].sum()
        np.testing.assert_allclose(causes.reindex(table.index, fill_value=0.0), table["idle"], atol=1e-9)
    assert idle_shares(run)["idle"].between(0, 1).all()


def test_its_trace_is_in_the_format(run):
    trace = chrome_trace(run, updates=12)
    check_format(trace)
    names = {event["name"] for event in trace["traceEvents"]}
    wanted = {"queue (rollouts)", "version (trainer)", "version (engines)", "idle: no_batch", "policy_update"}
    assert wanted <= names
    assert trace["otherData"]["updates_left_out"] == 28


def test_its_page_shows_it_from_within(tmp_path):
    simulate(groups(**SMALL, staleness=DropByAge(max_lag_updates=8))).log.write(tmp_path / "one")
    page = render(report_for_study(tmp_path / "one"))
    order = (
        "one: mean lag",
        "<h2>Verdict by arm",
        "<h2>Figures",
        "What the machines did",
        "Where the rollouts were",
        "<h2>Where did the lag come from?",
        "<h2>Idle by cause",
        "<h2>What became of every token",
        "<h2>Generated and trained lengths",
        "<h2>How many were answered?",
        "<h2>How old, by what is counted?",
        "<h2>Definitions",
    )
    positions = [page.index(text) for text in order]
    assert positions == sorted(positions)
    run = load_run(tmp_path / "one")
    assert f"{int(run.rollouts['action_tokens'].sum()):,}" in page
    assert "dropped: too old" in page
    simulate(groups(**SMALL)).log.write(tmp_path / "two")
    assert "Where did the lag" not in render(report_for_study(tmp_path / "one", tmp_path / "two"))


def test_contributions_are_measured_where_rewards_are():
    config = learning("grpo", **SMALL | {"updates": 8})
    own = from_log(learn(config).log, arm="arm", seed=0, clock="simulated")
    table = lag_table(own.rollouts, own.segments).set_index(["population", "weighting"])
    assert np.isfinite(table.loc["trained", "mean"]).all()
    assert 0 < table.loc[("trained", "contribution"), "n"] <= table.loc[("trained", "loss token"), "n"]
    assert table.loc["trained"].index.tolist()[1:] == list(WEIGHTINGS)
