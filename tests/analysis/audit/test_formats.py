"""Each system's files, written by hand as it writes them, arrive under our names."""

import importlib.util
import json
import math

import pandas as pd
import pytest

from analysis.audit.examine import examine
from analysis.audit.load import load
from analysis.audit.reading.own_run import read_run
from analysis.systems.columns import COLUMNS, KNOWN
from analysis.systems.known import ALL
from simulator.eventlog import Recorder
from simulator.experiments import groups
from simulator.pipeline.pipeline import run as simulate
from simulator.runfolder import write_run
from tests.analysis.audit.logs import write_jsonl

VERL = """\
{"step":1,"data":{"training/global_step":1,"actor/entropy":0.9,"actor/pg_clipfrac":0.01,"critic/score/mean":0.25,\
"rollout_corr/kl":0.002,"rollout_corr/rollout_is_eff_sample_size":0.97,"timing_s/step":61.5,\
"training/off_policy/trajectory_staleness_worst/mean":0.5,"training/off_policy/trajectory_staleness_worst/max":1,\
"fully_async/count/dropped_stale_samples":2,"fully_async/count/total_generated_samples":100,"perf/mfu/actor":0.3}}
{"step":1,"data":{"fully_async/rollouter/idle_ratio":0.1,"fully_async/rollouter/active_time":50.0}}
{"step":2,"data":{"training/global_step":2,"actor/entropy":0.8,"actor/pg_clipfrac":0.02,"critic/score/mean":0.5,\
"fully_async/count/dropped_stale_samples":12,"fully_async/count/total_generated_samples":200}}
"""


def test_verl_file_logger(tmp_path):
    path = tmp_path / "anything"
    path.write_text(VERL)
    log = load([path])
    assert log.system.name == "verl"
    assert "trajectory_staleness_worst" in log.system.lag
    table = log.updates.set_index("update")
    assert table["entropy"].tolist() == [0.9, 0.8]
    assert table["reward_mean"].tolist() == [0.25, 0.5]
    assert table.loc[1, ["lag_mean", "lag_max", "ess", "kl_k1"]].tolist() == [0.5, 1, 0.97, 0.002]
    # Totals become counts of each update; the share is of what was generated meanwhile.
    assert table.loc[2, "dropped_share"] == pytest.approx(10 / 100)
    assert log.sources[0].unknown == (
        "fully_async/rollouter/active_time",
        "perf/mfu/actor",
        "training/global_step",
    )


def test_trl_state_and_completions_join_by_update(tmp_path):
    history = [
        {
            "step": 1,
            "reward": 0.1,
            "reward_std": 0.3,
            "frac_reward_zero_std": 0.5,
            "kl": 0.01,
            "entropy": 1.2,
        },
        {"step": 2, "reward": 0.2, "completions/mean_length": 310.0, "clip_ratio/region_mean": 0.02},
        {"step": 2, "train_runtime": 12.0},
    ]
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"best_metric": None, "global_step": 2, "log_history": history}))
    completions = tmp_path / "c.parquet"
    pd.DataFrame(
        {
            "step": [2] * 4 + [3] * 4,
            "prompt": ["a", "a", "b", "b"] * 2,
            "completion": [f"text {i}" for i in range(8)],
            "accuracy": [1.0, 1.0, 0.0, 1.0] * 2,
            "advantage": [0.0, 0.0, -0.7, 0.7] * 2,
        }
    ).to_parquet(completions)
    log = load([state, completions])
    assert log.system.name == "TRL"
    table = log.updates.set_index("update")
    assert table["reward_mean"].tolist() == [0.1, 0.2, 0.75]  # the state was named first
    assert table["zero_variance_share"].tolist() == [0.5, 0.5, 0.5]
    assert not {"kl", "kl_k1", "kl_k3"} & set(table.columns)  # it is the divergence from the reference


def test_trl_asynchronous_logs_another_kl(tmp_path):
    records = [
        {"step": i, "ratio": 1.0, "kl": 0.01, "clip_ratio": 0.1, "frac_reward_zero_std": 0.1}
        for i in range(3)
    ]
    log = load([write_jsonl(tmp_path / "log", records)])
    assert log.system.name == "TRL (asynchronous)"
    assert log.updates["kl_k3"].tolist() == [0.01] * 3


def test_hugging_face_loggers_put_train_before_every_name(tmp_path):
    records = [
        {"train/global_step": i, "train/reward": 0.5, "train/frac_reward_zero_std": 0.1} for i in (1, 2)
    ]
    log = load([write_jsonl(tmp_path / "log", records)])
    assert log.system.name == "TRL"
    assert log.updates[["update", "reward_mean"]].to_numpy().tolist() == [[1, 0.5], [2, 0.5]]


def test_prime_rl_trainer_and_orchestrator_have_steps_of_their_own(tmp_path):
    trainer = [
        {"step": 1, "mismatch_kl/all/mean": 0.001},
        {"step": 1, "time/step": 100.0, "time/wait_for_batch": 40.0},
    ]
    orchestrator = [
        {
            "step": 1,
            "off_policy/mean": 1.5,
            "off_policy/max": 3.0,
            "time/step": 50.0,
            "time/wait_for_policy": 5.0,
        },
        {"step": 1, "solve_none/all": 0.2, "solve_all/all": 0.1, "train/agg/effective/reward/mean": 0.4},
    ]
    log = load([write_jsonl(tmp_path / "a", trainer), write_jsonl(tmp_path / "b", orchestrator)])
    assert log.system.name == "prime-rl"
    row = log.updates.iloc[0]
    assert row["trainer_idle_share"] == 0.4
    assert row["engine_idle_share"] == 0.1
    assert row["zero_variance_share"] == pytest.approx(0.3)
    assert (row["lag_mean"], row["lag_max"], row["kl_k3"], row["reward_mean"]) == (1.5, 3, 0.001, 0.4)


def test_prime_rl_token_exports(tmp_path):
    token = {"loss_mask": True, "reward": 1.0, "inference_logprob": -1.0, "trainer_logprob": -1.5}
    record = {
        "schema_version": 1,
        "step": 4,
        "rank": 0,
        "env_name": "math",
        "tokens": [token, token | {"loss_mask": False}],
    }
    log = load([write_jsonl(tmp_path / "rank_0.jsonl", [record, record])])
    assert log.system.name == "prime-rl"
    row = log.tokens.iloc[0]
    assert (row["lag"], row["tokens"], row["rollouts"]) == (-1, 2, 2)
    assert row["k3"] == pytest.approx(2 * (math.exp(-0.5) - 1 + 0.5))


def test_skyrl_export_of_a_web_page(tmp_path):
    path = tmp_path / "wandb.csv"
    path.write_text(
        '"trainer/global_step","run - 1 - async/staleness_mean","run - 1 - async/staleness_mean__MIN",'
        '"run - 1 - async/staleness_mean__MAX","run - 1 - policy/ppo_clip_ratio","run - 1 - timing/step",'
        '"run - 1 - timing/wait_for_generation_buffer"\n"1","0.5","0","9","0.01","60","15"\n'
        '"2","0.75","0","9","","60","30"\n'
    )
    log = load([path])
    assert log.system.name == "SkyRL"
    assert log.updates["lag_mean"].tolist() == [0.5, 0.75]
    assert log.updates["trainer_idle_share"].tolist() == [0.25, 0.5]
    assert math.isnan(log.updates["clip_fraction"][1])


def test_areal_statistics_have_the_other_sign(tmp_path):
    records = [
        {
            "global_step": i,
            "ppo_actor/update/behave_approx_kl/avg": -0.01,
            "ppo_actor/update/update_successful": 1.0,
        }
        for i in (1, 2)
    ]
    log = load([write_jsonl(tmp_path / "stats", records)])
    assert log.system.name == "AReaL"
    assert log.updates["kl_k1"].tolist() == [0.01, 0.01]
    assert log.updates["refused"].tolist() == [0, 0]


def test_areal_sessions(tmp_path):
    def session(i, status, seconds):
        return {
            "task_id": i,
            "session_id": i,
            "rank": 0,
            "status": status,
            "submit_ts": 100.0 + i,
            "finalized_ts": 200.0 + i,
            "total_s": 100.0,
            "generate_s": seconds,
            "phases": {"generate": [{"start_ts": 101.0, "end_ts": 101.0 + seconds}]},
        }

    records = [session(i, "accepted", 10.0) for i in range(6)] + [
        session(6 + i, "rejected", 30.0) for i in range(2)
    ]
    audit = examine(load([write_jsonl(tmp_path / "sessions.jsonl", records)]))
    assert audit.log.system.name == "AReaL"
    found = {one.check: one for one in audit.findings}
    assert found["length bias"].evidence["ratio"] == pytest.approx(10 / 15)
    assert found["dropped"].evidence["dropped_share"] == 0.25


def test_aliases_come_before_everything(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("iter;how_old;step\n1;0.5;7\n2;1.5;7\n")
    log = load([path], {"iter": "update", "how_old": "lag_mean"})
    assert log.updates.to_numpy().tolist() == [[1, 0.5], [2, 1.5]]
    with pytest.raises(ValueError, match="alias how_old=lagg"):
        load([path], {"how_old": "lagg"})


def test_a_log_without_a_step_is_counted(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("reward,entropy\n0.1,1\n0.2,0.9\n")
    log = load([path])
    assert log.updates["update"].tolist() == [1, 2]
    assert log.sources[0].counted_by is None


def test_a_run_folder_of_ours(tmp_path):
    config = groups(slots=32, engines=2, rollouts_per_update=16, updates=40)
    write_run(tmp_path / "run", simulate(config).log, config, arm="arm")
    log = load([tmp_path / "run"])
    assert log.system.name == "PolicyLag"
    assert len(log.updates) == 40
    assert (log.column("lag_max")[1] >= log.column("lag_mean")[1]).all()
    for share in ("trainer_idle_share", "engine_idle_share"):
        _, values = log.column(share)
        assert ((values >= 0) & (values <= 1)).all()
        assert len(values) == 10
    assert read_run(tmp_path / "run").source.what == "run folder of PolicyLag"
    with pytest.raises(ValueError, match="more than one run folder"):
        load([tmp_path / "run", tmp_path / "run"])
    assert len(load([tmp_path]).updates) == 40  # the folder above it


def test_groups_of_a_run_folder_whose_rewards_are_equal(tmp_path):
    recorder = Recorder()
    for i, (group, reward) in enumerate([(0, 1.0), (0, 1.0), (1, 0.0), (1, 1.0)]):
        recorder.add_rollout(
            rollout_id=i,
            prompt_id=group,
            group_id=group,
            started_s=0.0,
            finished_s=1.0,
            enqueued_s=1.0,
            consumed_s=1.0,
            first_version=0,
            last_version=0,
            oldest_version=0,
            consumed_version=0,
            action_tokens=10,
            reward=reward,
            status="trained",
        )
        recorder.add_segment(rollout_id=i, version=0, start_token=0, tokens=10, start_s=0.0, end_s=1.0)
    recorder.add_update(
        {"reward": 0.75},
        version=1,
        wait_start_s=0.0,
        train_start_s=1.0,
        train_end_s=2.0,
        published_s=2.0,
        rollouts=4,
        tokens=40,
    )
    recorder.log().write(tmp_path / "run")
    log = load([tmp_path / "run"])
    row = log.updates.iloc[0]
    assert (row["zero_variance_share"], row["reward_mean"], row["lag_max"]) == (0.5, 0.75, 0)


def test_a_folder_of_files_leaves_out_what_is_no_log(tmp_path):
    for step in (1, 2):
        write_jsonl(
            tmp_path / f"{step}.jsonl",
            [{"input": "a", "output": f"{i}", "score": i, "step": step} for i in (0, 1)],
        )
    (tmp_path / "notes.txt").write_text("nothing here\n")
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)))
    log = load([tmp_path])
    assert log.updates["update"].tolist() == [1, 2]
    assert [source.path.name for source in log.sources if source.what.startswith("left out")] == [
        "notes.txt",
        "weights.bin",
    ]


def test_files_of_one_rollout_folder_are_one_run(tmp_path):
    """What the second file trains again is seen, though it is another file's; and 2 comes before 10."""
    for step in (1, 2, 10):
        records = [{"input": "a", "output": f"{i % 4}", "score": i, "step": step} for i in range(4)]
        write_jsonl(tmp_path / f"{step}.jsonl", records)
    log = load([tmp_path])
    assert [source.path.name for source in log.sources] == ["1.jsonl", "2.jsonl", "10.jsonl"]
    assert (log.strange.trained_again, log.strange.sampled) == (8, 12)


def test_tables_of_names_point_at_columns_that_exist():
    for system in ALL:
        assert set(system.metrics.values()) <= KNOWN, system.name
        assert system.negated <= set(system.metrics)
    assert "update" in COLUMNS


EVENT_FILE_HEAD = (
    b'\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7fK"\t\x00\x00\xc0\x8a\xe6\xb1\xd9A\x1a\rbrain.Event:2'
)


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is not None, reason="the package is there")
def test_event_files_say_what_is_missing_without_the_package(tmp_path):
    path = tmp_path / "events"
    path.write_bytes(EVENT_FILE_HEAD + b"\x00" * 20)
    with pytest.raises(ValueError, match="pip install tensorboard"):
        load([path])


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed")
def test_event_files(tmp_path):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))
    for step in (1, 2):
        for tag, value in (("actor/entropy", 0.9), ("critic/score/mean", 0.5)):
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(step=step, wall_time=1.0, summary=summary))
    writer.close()
    log = load([tmp_path])
    assert log.system.name == "verl"
    assert log.updates["update"].tolist() == [1, 2]
    assert log.updates["entropy"].tolist() == pytest.approx([0.9, 0.9])


def fancy_grid(stats, pairs):
    """As tabulate draws a fancy grid of 4 decimals: column by column, pairs side by side."""
    items = list(stats.items())
    height = -(-len(items) // pairs)
    lines = ["╒" + "═" * 20 + "╕"]
    for i in range(height):
        cells = []
        for j in range(pairs):
            name, value = items[i + j * height] if i + j * height < len(items) else ("", None)
            cells += [f" {name:40} ", f" {value:.4e} " if value is not None else "            "]
        lines += ["│" + "│".join(cells) + "│", "├" + "─" * 20 + "┤"]
    return "\n".join([*lines[:-1], "╘" + "═" * 20 + "╛"])


@pytest.mark.parametrize("pairs", [1, 4])
@pytest.mark.parametrize("scope", ["ppo_actor", "grpo_actor"])
def test_areal_console(tmp_path, pairs, scope):
    path, text = tmp_path / "main.log", ["20251111-11:37:11.251 Launcher INFO: started, with 8 workers"]
    for step in range(1, 31):
        stats = {
            f"{scope}/update/version_stats/sample_staleness_theta_avg": 1 + 0.1 * step,
            f"{scope}/update/behave_approx_kl/avg": -0.02,
            f"{scope}/update/entropy/avg": 0.5,
            f"{scope}/task_reward/avg": 0.25,
            "timeperf/train_step": 12.5,
        }
        text += [
            f"\x1b[32m20251111-11:37:11.251 StatsLogger INFO: Epoch 1/5 Step {step}/935 "
            f"Train step {step}/4675 done.\x1b[0m",
            "20251111-11:37:11.252 StatsLogger INFO: Stats (1/2):",
            "20251111-11:37:11.252 StatsLogger INFO: ",
            fancy_grid(stats, pairs),
            "20251111-11:37:11.252 StatsLogger INFO: Stats (2/2):",
            fancy_grid({f"{scope}/update/entropy/avg": 0.7}, pairs),
        ]
    path.write_text("\n".join(text) + "\n│ ppo_actor/cut")
    log = load([path])
    assert log.system.name == "AReaL"
    assert log.sources[0].what == "console of AReaL, names of AReaL"
    assert log.sources[0].broken == 1
    table = log.updates.set_index("update")
    assert table.index.tolist() == list(range(1, 31))
    assert table["lag_mean"].tolist() == pytest.approx([1 + 0.1 * step for step in range(1, 31)], rel=1e-4)
    assert table["kl_k1"].tolist() == [0.02] * 30  # the other sign
    assert table["entropy"].tolist() == pytest.approx([0.6] * 30)
    assert "lag creeps up" in {one.check for one in examine(log).findings}


def test_masked_tokens_by_the_sign_of_their_advantage(tmp_path):
    """prime-rl logs shares of what it masked."""
    records = [
        {
            "step": i,
            "off_policy/mean": 1.0,
            "is_masked/mean": 0.4,
            "masked_advantage_positive/mean": 0.05,
            "masked_advantage_negative/mean": 0.95,
        }
        for i in range(20)
    ]
    audit = examine(load([write_jsonl(tmp_path / "log", records)]))
    finding = next(one for one in audit.findings if one.check == "clipped and masked")
    assert finding.evidence["negative"] == pytest.approx(0.38)
    assert finding.evidence["positive"] == pytest.approx(0.02)
    assert finding.what.endswith("nearly all of it is where the advantage is negative")
