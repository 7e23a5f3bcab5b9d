import numpy as np
import pytest
import torch

from simulator.config import PipelineConfig
from simulator.lab.bridge import LearningWorkload
from simulator.lab.config import EstimatorName, LearnConfig
from simulator.lab.run import learn
from simulator.lab.student import Student, method_of
from simulator.pipeline.pipeline import run
from simulator.world.decoding import FixedSpeed
from simulator.world.lengths import LogNormal


def tiny(estimator: EstimatorName, **changes: object) -> LearnConfig:
    critic = {"critic_updates": 2, "critic_update_s": 0.1} if estimator == "sao" else {}
    fields: dict[str, object] = {
        "slots": 64,
        "engine": FixedSpeed(seconds_per_token=0.01),
        "group_size": 1 if estimator == "sao" else 4,
        "rollouts_per_update": 16,
        "updates_per_batch": 2,
        "updates": 24,
        "policy_update_s": 0.1,
        "lengths": LogNormal(mean_tokens=100, sd_tokens=100),
    }
    return LearnConfig(pipeline=PipelineConfig(**fields | critic | changes), estimator=estimator)


@pytest.mark.parametrize("estimator", ["grpo", "grpo_behaviour_clip", "grpo_dis", "sao"])
def test_learning_does_not_touch_the_schedule(estimator: EstimatorName) -> None:
    """Same rollouts, same versions, same times as with timing alone: estimators meet equal traffic."""
    config = tiny(estimator)
    learned, timed = learn(config).log, run(config.pipeline).log
    assert learned.segments.equals(timed.segments)
    assert learned.intervals.equals(timed.intervals)
    assert learned.rollouts.drop_columns("reward").equals(timed.rollouts.drop_columns("reward"))


def test_equal_seeds_learn_equal_things_and_other_seeds_other_things() -> None:
    digests = [learn(tiny("sao", seed=seed)).log.digest() for seed in (3, 3, 4)]
    assert digests[0] == digests[1] != digests[2]


def test_the_log_holds_what_the_learner_saw() -> None:
    log = learn(tiny("grpo_dis")).log
    updates, rollouts = log.updates.to_pandas(), log.rollouts.to_pandas()
    trained = rollouts[rollouts.status == "trained"]
    assert trained.reward.between(0, 1).all()
    means = trained.groupby("consumed_version").reward.mean().to_numpy()
    np.testing.assert_allclose(updates.reward, means, atol=1e-6)
    assert (updates.token_lag >= 0).all()
    assert updates.token_lag.max() > 0


def test_the_trainer_really_moves_under_the_pipeline() -> None:
    student = Student(tiny("grpo"))
    start = [weight.detach().clone() for weight in student.learner.policy.parameters()]
    run(tiny("grpo").pipeline, LearningWorkload(student))
    moved = student.learner.policy.parameters()
    # a unit that is never active may keep its weights
    assert all(not torch.equal(before, now) for before, now in zip(start, moved, strict=True))


def test_critic_follows_the_configuration() -> None:
    recipe = method_of(tiny("sao", critic_updates=3)).estimator.critic
    assert recipe is not None
    assert recipe.updates_per_policy_update == 3
    assert recipe.learning_rate_ratio == 5.0


@pytest.mark.parametrize(
    ("estimator", "changes", "message"),
    [
        ("grpo", {"group_size": 1}, "group_size is 1: grpo"),
        ("sao", {"group_size": 4}, "group_size is 4: sao"),
        (
            "grpo_dis",
            {"critic_updates": 2, "critic_update_s": 0.1},
            "critic_updates is 2: grpo_dis has no critic",
        ),
        ("sao", {"critic_updates": 0, "critic_update_s": 0.0}, "critic_updates is 0"),
    ],
)
def test_impossible_runs_are_refused(
    estimator: EstimatorName, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tiny(estimator, **changes)
