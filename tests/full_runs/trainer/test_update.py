"""The twin of the lab's learner, on one rank: equal data, equal parameters."""

import dataclasses
import math

import pytest
import torch

from full_runs.trainer.build import built
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.shares import Share
from simulator.lab.parts import Lesson
from tests.full_runs.trainer import tiny

pytest.importorskip("transformers", reason=tiny.WHY)


CALM = {"critic_only_updates": 0, "learning_rate_ratio": 1}
"""A critic that plain gradient descent does not throw off."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return tiny.qwen(tmp_path_factory.mktemp("model"))


def agree(config, alone, *, updates, lessons=tiny.lesson, off_nats=0.0):
    """Both learners through the same lessons, sampled by the lab's policy at lag 0."""
    trainer, learner = built(config, alone), tiny.in_the_lab(config)
    start = tiny.weights(learner.policy)
    for update in range(updates):
        taken = tiny.sampled_by(learner.policy, lessons(update), off_nats=off_nats)
        seen, wanted = trainer.update(taken), learner.update(taken)
        assert seen.keys() == wanted.keys()
        for name, value in wanted.items():
            # The lab measures this one always; here it costs a gradient's memory and is measured if used.
            if name != "gradient_cosine" or config.estimator == "grpo_gac":
                assert seen[name] == pytest.approx(value, abs=2e-5, rel=1e-3, nan_ok=True), name
    end = tiny.weights(learner.policy)
    assert tiny.apart(tiny.weights(trainer.policy), end) < 1e-5
    # Nothing would be shown by weights that stand still.
    assert tiny.apart(end, start) > 2e-3
    return trainer, learner


@pytest.mark.parametrize("estimator", ["grpo_dis", "sao_no_warm_up"])
def test_twenty_updates_end_where_the_lab_ends(folder, alone, estimator):
    config = TrainerConfig(model=folder, estimator=estimator, learning_rate=1e-3)
    trainer, learner = agree(config, alone, updates=20)
    if trainer.critic is not None:
        critic = tiny.weights(learner.critic.network)
        assert tiny.apart(tiny.weights(trainer.critic.network), critic) < 1e-5


@pytest.mark.parametrize(
    ("estimator", "layout"),
    [
        ("sao_no_warm_up", {"tokens_at_once": 30}),
        ("sao_values_after", {"tokens_at_once": 30, "packed": True, "checkpointed": True}),
        # pi_old, a searched bound, a controlled gradient, a penalty, a running mean.
        ("grpo", {"tokens_at_once": 30, "scored_first": False, "logits_at_once": 61 * 5}),
        ("m2po", {"tokens_at_once": 30, "scored_first": False}),
        ("grpo_gac", {"tokens_at_once": 30}),
        ("tba", {"tokens_at_once": 30}),
        ("sao_running_mean", {}),
    ],
)
def test_any_layout_of_any_method_is_the_labs(folder, alone, estimator, layout):
    # Plain gradient descent: Adam would hide a factor, and make of a gradient's rounding a step.
    config = TrainerConfig(
        model=folder,
        estimator=estimator,
        learning_rate=0.02,
        optimizer="sgd",
        critic=CALM if estimator in ("sao_no_warm_up", "sao_values_after") else {},
        **layout,
    )
    agree(config, alone, updates=4, off_nats=0.3)


def test_a_cut_rollout_is_worth_what_follows_its_own_last_token(folder, alone):
    """The lab's cut rollouts fill the width of their batch. Those that do not are read where they end."""
    critic = built(TrainerConfig(model=folder, estimator="sao", learning_rate=1e-3), alone).critic
    lesson = tiny.sampled_by(tiny.policy(folder), tiny.lesson(3, truncated=True))
    share = Share(rows=torch.arange(len(lesson.prompts)), counts=True)
    critic.fit(lesson, [share])
    with torch.no_grad():
        after = []
        for prompt, tokens in zip(lesson.prompts, lesson.batch.token_ids, strict=True):
            longer = torch.cat([tokens[tokens >= 0], torch.tensor([0])])
            after.append(critic.network(prompt[None], longer[None])[0, -1])
    batch = critic.fit(lesson, [share]).lesson.batch
    torch.testing.assert_close(batch.bootstrap_values, torch.stack(after), atol=1e-5, rtol=0)
    assert batch.bootstrap_values.std() > 0


def test_a_gradient_that_is_not_finite_moves_nothing_and_is_counted(folder, alone):
    config = TrainerConfig(model=folder, estimator="grpo_dis", learning_rate=1e-3, tokens_at_once=30)
    trainer = built(config, alone)
    good = tiny.sampled_by(tiny.policy(folder), tiny.lesson(0))
    assert trainer.update(good)["refused"] == 0
    before = tiny.weights(trainer.policy)
    rewards = good.batch.rewards.clone()
    rewards[0] = rewards[0] * math.inf
    bad = Lesson(prompts=good.prompts, batch=dataclasses.replace(good.batch, rewards=rewards))
    assert trainer.update(bad)["refused"] == 1
    assert tiny.apart(tiny.weights(trainer.policy), before) == 0
    assert trainer.update(good)["refused"] == 0
    assert trainer.updates == 3
    assert tiny.apart(tiny.weights(trainer.policy), before) > 0


def test_a_batch_scored_when_it_was_taken_keeps_its_pi_old(folder, alone):
    """Two updates on one batch: scored once, PPO's second ratio is not one."""
    config = TrainerConfig(model=folder, estimator="grpo", learning_rate=3e-3)
    trainer, learner = built(config, alone), tiny.in_the_lab(config)
    taken = learner.policy.snapshot()
    lesson = tiny.sampled_by(taken, tiny.lesson(0))
    old = trainer.log_probs(lesson)
    scored = Lesson(prompts=lesson.prompts, batch=dataclasses.replace(lesson.batch, old_log_probs=old))
    for _ in range(3):
        trainer.update(scored)
        learner.update(lesson, taken)
    assert tiny.apart(tiny.weights(trainer.policy), tiny.weights(learner.policy)) < 1e-5


def test_the_gradient_is_shortened_to_the_norm_that_is_asked_for(folder, alone):
    lesson = tiny.sampled_by(tiny.policy(folder), tiny.lesson(0))
    start = tiny.weights(tiny.policy(folder))

    def moved(**options):
        config = TrainerConfig(
            model=folder, estimator="grpo_dis", learning_rate=1.0, optimizer="sgd", **options
        )
        trainer = built(config, alone)
        norm = trainer.update(lesson)["gradient_norm"]
        end = tiny.weights(trainer.policy)
        return norm, math.sqrt(sum(float((end[n] - start[n]).square().sum()) for n in start))

    norm, step = moved()
    assert step == pytest.approx(norm, rel=1e-4)
    shortened = moved(max_gradient_norm=norm / 3)
    assert shortened == (pytest.approx(norm, rel=1e-5), pytest.approx(norm / 3, rel=1e-3))


def test_bfloat16_passes_keep_float32_weights(folder, alone):
    config = TrainerConfig(model=folder, estimator="sao_no_warm_up", learning_rate=1e-3, precision="bfloat16")
    trainer = built(config, alone)
    lesson = tiny.sampled_by(tiny.policy(folder), tiny.lesson(0))
    said, exact = trainer.log_probs(lesson), lesson.batch.behaviour_log_probs
    error = (said - exact).abs().max()
    # bfloat16 keeps 8 bits: logits of size 1 are off by some thousandths, not by more, and not by nothing.
    assert 1e-5 < error < 0.05
    assert trainer.update(lesson)["refused"] == 0
    assert {p.dtype for p in trainer.parameters.values()} == {torch.float32}
    assert {p.grad.dtype for p in trainer.parameters.values() if p.grad is not None} <= {torch.float32}
