"""What `policylag learn` makes of its words: worlds, replays, and what it refuses in one line."""

import json
from pathlib import Path

import pytest

import policylag
from simulator.command_line import BadInputError
from simulator.eventlog import EventLog
from simulator.experiments import LEARNERS
from simulator.lab.ask import WORLDS, ask
from simulator.lab.run import learn
from simulator.runfolder import write_run
from tests.simulator.lab.test_bridge import tiny


def refused(*words: str) -> str:
    with pytest.raises(BadInputError) as caught:
        ask(list(words))
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "grpo"
    config = tiny("grpo")
    write_run(folder, learn(config).log, config, arm="grpo")
    return folder


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that only kept time, of single rollouts."""
    folder = tmp_path_factory.mktemp("runs") / "single"
    words = ["--slots=64", "--rollouts-per-update=16", "--updates-per-batch=2", "--updates=8"]
    assert policylag.main(["simulate", "single", *words, "--quiet", f"--out={folder}"]) == 0
    return folder


def said_by(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert policylag.main(["learn", *words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_dashes_and_underscores_name_the_same_estimator() -> None:
    for name in LEARNERS:
        assert ask([name]).config == ask([name.replace("-", "_")]).config
    assert ask(["--estimator", "grpo-dis", *_GROUPS]).config == ask(["--estimator=grpo_dis", *_GROUPS]).config


_GROUPS = ["--pipeline.group-size=8", "--pipeline.critic-updates=0", "--pipeline.critic-update-s=0"]


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_by_name_is_what_its_subcommand_gives(name: str) -> None:
    asked = ask(["grpo", "--world", name.replace("-", "_")]).config
    assert asked.world == WORLDS[name]
    assert asked.world == ask(["grpo", f"world:{name}-world"]).config.world


def test_a_language_model_gets_a_rate_that_it_survives_and_fields_go_on_from_there() -> None:
    config = ask(["grpo", "--world=carry-addition", "--world.most-digits", "2"]).config
    assert (config.learning_rate, config.world.most_digits) == (1e-4, 2)  # type: ignore[union-attr]
    assert ask(["grpo", "--world=carry-addition", "--learning-rate=1e-3"]).config.learning_rate == 1e-3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpro"], "no estimator 'gpro'; did you mean "),
        (["--estimator", "gpro"], "no estimator 'gpro'; did you mean "),
        (["SAO_"], "did you mean sao"),
        (["grpo", "--world", "bigrm"], "no world 'bigrm'; did you mean bigram?"),
        (["grpo", "--world", "0"], "no world '0'; there are modular-addition, "),
        (["grpo", "--world", "bigram", "world:band-bits-world"], "--world is bigram, but another word"),
        (
            ["grpo", "--checkpoint-every", "0", "--checkpoint", "c"],
            "checkpoint_every must be at least 1, got 0",
        ),
        (["grpo", "--checkpoint", "c", "--out", "./c"], "each needs its own"),
        (["grpo", "--checkpoint", "/dev/null"], "/dev/null can be no folder"),
        (["grpo", "--checkpoint", "/proc/x"], "learn: checkpoint: "),
        (["grpo", "--replay", "nowhere"], "replay: nowhere holds no run: rollouts.parquet is missing"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], said: str) -> None:
    assert said in refused(*words)


def test_a_file_that_names_another_world_than_the_flag_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[world]\nkind = "bigram"\n')
    file = str(tmp_path / "c.toml")
    assert ask(["grpo", "--config", file]).config.world.kind == "bigram"
    assert "--world is band-bits, but another" in refused("grpo", "--world", "band-bits", "--config", file)


def test_a_replay_of_the_recorded_estimator_is_the_recorded_run(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = EventLog.read(recorded)
    same = said_by(["grpo", "--replay", str(recorded)], capsys)
    other = said_by(["grpo_dis", f"--replay={recorded}", f"--out={tmp_path / 'other'}"], capsys)
    assert same["digest"] == log.digest() != other["digest"]
    kept = EventLog.read(tmp_path / "other")
    assert kept.segments.equals(log.segments)
    meta = json.loads((tmp_path / "other" / "meta.json").read_text())
    assert (meta["arm"], meta["replayed"], meta["digest"]) == ("grpo-dis", log.digest(), other["digest"])
    # A replay is a run like any other: it can be replayed, and reported.
    assert said_by(["grpo", f"--replay={tmp_path / 'other'}"], capsys)["digest"] == log.digest()
    assert policylag.main(["report", str(tmp_path / "other")]) == 0


def test_what_a_timing_run_recorded_can_be_learned_from(
    timed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learned = said_by(["sao", "--replay", str(timed)], capsys)
    assert learned["digest"] != EventLog.read(timed).digest()
    assert learned["updates"] == 8
    without = ["reinforce-pp", "--replay", str(timed)]
    assert "critic_updates is 2: reinforce_pp has no critic; --pipeline.critic-updates N" in refused(*without)
    assert said_by([*without, "--pipeline.critic_updates=0"], capsys)["arm"] == "reinforce-pp"


def test_what_a_schedule_does_not_suit_is_refused(recorded: Path, timed: Path) -> None:
    grpo = ["grpo", "--replay", str(recorded)]
    assert "group_size is 4: sao takes one" in refused("sao", "--replay", str(recorded))
    assert "group_size is 1: rloo centres" in refused("rloo", "--replay", str(timed))
    assert "pipeline.critic_updates is 0: mis_po trains a critic" in refused("mis-po", *grpo[1:])
    assert "pipeline.critic_updates" in refused("mis-po", *grpo[1:], "--pipeline.critic-updates", "many")
    assert "pipeline.slots was 64 when it was recorded" in refused(*grpo, "--pipeline.slots", "32")
    assert "imposed_lag_updates was None" in refused(*grpo, "--imposed-lag-updates", "3")
    assert "--replay needs an estimator by name" in refused(*grpo[1:])
    assert "no estimator 'gpro'" in refused("gpro", *grpo[1:])
    assert "--checkpoint cannot be had" in refused(*grpo, "--checkpoint", "c")
    assert "--config cannot be had" in refused(*grpo, "--config", "c.toml")
    assert "--lengths-csv has no effect" in refused(*grpo, "--lengths-csv", "c.csv")
    assert "not an empty folder" in refused(*grpo, "--out", str(recorded))


def test_a_folder_that_lacks_something_is_refused(recorded: Path, tmp_path: Path) -> None:
    log = EventLog.read(recorded)
    log.write(tmp_path / "bare")
    assert "config.json is missing" in refused("grpo", "--replay", str(tmp_path / "bare"))
    for content in ("[]", "{", '{"pipeline": 3}', '{"slots": 3}'):
        (tmp_path / "bare" / "config.json").write_text(content)
        assert "bare" in refused("grpo", "--replay", str(tmp_path / "bare"))
    (tmp_path / "bare" / "segments.parquet").write_bytes(b"PAR1")
    assert "replay: " in refused("grpo", "--replay", str(tmp_path / "bare"))


def test_a_padded_group_and_an_estimator_that_refuses_are_one_line(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = EventLog.read(recorded)
    object.__setattr__(log, "rollouts", log.rollouts.slice(1))
    log.write(tmp_path / "short", config=tiny("grpo").model_dump(mode="json"))
    small = ["--pipeline.slots=64", "--pipeline.rollouts-per-update=16", "--pipeline.updates=8", "--quiet"]
    for words, said in (
        (
            ["grpo", "--quiet", f"--replay={tmp_path / 'short'}"],
            "policylag learn grpo: update 1 trained on 15",
        ),
        (["vapo", *small], "of 8 action tokens; it needs alpha * tokens >= 1; vapo-alpha-1.5 takes short"),
        (
            ["rloo", "--eps-low=0.1", *small],
            "learn rloo: rloo has no band of this kind, got ",
        ),
    ):
        assert policylag.main(["learn", *words]) == 2
        err = capsys.readouterr().err
        assert said in err
        assert err.count("\n") == 1


def test_help_lists_every_estimator_once(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(SystemExit) as stop:
        policylag.main(["learn", "--help"])
    assert not stop.value.code
    said = capsys.readouterr().out.replace("\n", " ")
    for name in (*LEARNERS, *WORLDS):
        assert f" {name}," in said or f" {name}." in said, name
    assert said.count("sao_step_mean") == 0
