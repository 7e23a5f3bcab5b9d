"""A trainer that goes on where another stopped."""

import pytest

from full_runs.trainer import checkpoint
from full_runs.trainer.build import built
from full_runs.trainer.config import TrainerConfig
from tests.full_runs.trainer import tiny

pytest.importorskip("transformers", reason=tiny.WHY)

OWNER = {"estimator": "x"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return tiny.qwen(tmp_path_factory.mktemp("model"))


# A previous gradient, a running mean, an optimizer that is emptied, a critic in its critic-only phase.
@pytest.mark.parametrize("estimator", ["grpo_gac", "sao_running_mean", "grpo_reset", "sao"])
@pytest.mark.parametrize("done", [0, 2])
def test_it_goes_on_to_the_bit(folder, tmp_path, alone, estimator, done):
    config = TrainerConfig(model=folder, estimator=estimator, learning_rate=1e-3)
    lessons = [tiny.sampled_by(tiny.policy(folder), tiny.lesson(update)) for update in range(done + 2)]
    first, second = built(config, alone), built(config, alone)
    for lesson in lessons[:done]:
        first.update(lesson)
    first.pushed()
    checkpoint.save(first, tmp_path / "kept", owner=OWNER)
    # One that is somewhere else by now.
    second.update(lessons[-1])
    checkpoint.load(second, tmp_path / "kept", owner=OWNER)
    for lesson in lessons[done:]:
        assert repr(first.update(lesson)) == repr(second.update(lesson))
    assert tiny.apart(tiny.weights(first.policy), tiny.weights(second.policy)) == 0
    assert first.updates == second.updates == done + 2


def test_saving_changes_nothing(folder, tmp_path, alone):
    config = TrainerConfig(model=folder, estimator="sao_no_warm_up", learning_rate=1e-3)
    lesson = tiny.sampled_by(tiny.policy(folder), tiny.lesson(0))
    saved, plain = built(config, alone), built(config, alone)
    checkpoint.save(saved, tmp_path / "kept", owner=OWNER)
    assert repr(saved.update(lesson)) == repr(plain.update(lesson))
    assert tiny.apart(tiny.weights(saved.policy), tiny.weights(plain.policy)) == 0


def test_anothers_checkpoint_and_none_are_refused(folder, tmp_path, alone):
    trainer = built(TrainerConfig(model=folder, estimator="grpo"), alone)
    before = tiny.weights(trainer.policy)
    checkpoint.save(trainer, tmp_path / "kept", owner={"estimator": "grpo"})
    with pytest.raises(ValueError, match=r"another run: .*'grpo', 'sao'"):
        checkpoint.load(trainer, tmp_path / "kept", owner={"estimator": "sao"})
    with pytest.raises(ValueError, match="holds no checkpoint"):
        checkpoint.load(trainer, tmp_path / "absent", owner={})
    assert tiny.apart(tiny.weights(trainer.policy), before) == 0
