import dataclasses

import pytest

from simulator.lab.replay import pushed_versions, recorded_traffic, replay
from simulator.lab.run import learn
from simulator.lab.student import Student
from tests.simulator.lab.test_bridge import tiny


def test_a_replay_under_the_recorded_estimator_gives_the_recorded_run() -> None:
    recorded = learn(tiny("grpo_dis"))
    assert replay(Student(tiny("grpo_dis")), recorded.log).digest() == recorded.log.digest()


def test_another_estimator_meets_the_same_rollouts_and_learns_other_things() -> None:
    recorded = learn(tiny("grpo_dis"))
    other = replay(Student(tiny("grpo")), recorded.log)
    assert other.segments.equals(recorded.log.segments)
    assert other.rollouts.drop_columns("reward").equals(recorded.log.rollouts.drop_columns("reward"))
    assert other.updates["accuracy"] != recorded.log.updates["accuracy"]
    # until the first push both sample with the starting weights
    assert other.updates["reward"][0] == recorded.log.updates["reward"][0]


def test_versions_that_engines_held() -> None:
    assert pushed_versions(learn(tiny("grpo", updates=6)).log) == {2, 4, 6}


def test_a_padded_group_is_refused() -> None:
    recorded = learn(tiny("grpo", updates=4))
    log = recorded.log
    short = dataclasses.replace(log, rollouts=log.rollouts.slice(1))
    with pytest.raises(ValueError, match="update 1 trained on 15 rollouts of 16"):
        list(recorded_traffic(short, recorded.config))
