"""Real ranks, asked through files, and what is said when one of them ends."""

import os
import signal

import pytest
import torch

from full_runs.trainer.client import TrainerClient
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.processes import TrainerError
from full_runs.trainer.worker import failure_file
from tests.full_runs.trainer import tiny

pytest.importorskip("transformers", reason=tiny.WHY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return tiny.qwen(tmp_path_factory.mktemp("model"))


def test_two_ranks_do_what_is_asked_and_a_killed_one_ends_both(folder, tmp_path):
    config = TrainerConfig(model=folder, estimator="sao_no_warm_up", learning_rate=1e-3)
    learner = tiny.in_the_lab(config)
    lessons = [tiny.sampled_by(learner.policy, tiny.lesson(update)) for update in range(3)]
    with TrainerClient(tmp_path / "trainer").start(config, 2) as client:
        first = lessons[0]
        said = client.log_probs(first.batch, first.prompts)
        torch.testing.assert_close(said, first.batch.behaviour_log_probs, atol=1e-5, rtol=0)
        for lesson in lessons[:2]:
            prompts = [[token for token in row if token >= 0] for row in lesson.prompts.tolist()]
            seen, wanted = client.train(lesson.batch, prompts), learner.update(lesson)
            assert seen.keys() == wanted.keys()
            assert seen["loss"] == pytest.approx(wanted["loss"], abs=1e-5)
        client.save_checkpoint(tmp_path / "kept")
        assert client.pushed() == 2
        client.save_weights(tmp_path / "two")
        middle = tiny.weights(learner.policy)
        assert tiny.apart(tiny.weights(tiny.policy(str(tmp_path / "two"))), middle) < 1e-5
        client.train(lessons[2].batch, lessons[2].prompts)
        assert client.resume(tmp_path / "kept") == 2
        client.save_weights(tmp_path / "two")
        assert tiny.apart(tiny.weights(tiny.policy(str(tmp_path / "two"))), middle) < 1e-5
        ranks = client.process_ids()
        os.kill(ranks[1], signal.SIGKILL)
        with pytest.raises(TrainerError, match=r"SIGKILL"):
            client.train(first.batch, first.prompts)
        for pid in ranks:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
        with pytest.raises(TrainerError, match="not running"):
            client.train(first.batch, first.prompts)


def test_ranks_end_with_their_controller(folder, tmp_path):
    client = TrainerClient(tmp_path).start(TrainerConfig(model=folder, estimator="grpo"), 1)
    assert client.pushed() == 0
    process = client._processes.torchrun
    # What the operating system does to the pipe when the controller is killed.
    process.stdin.close()
    assert process.wait(120) != 0
    assert failure_file(tmp_path, 0).read_text().startswith("RuntimeError: the controller is gone")


def test_what_stops_a_rank_is_in_the_error(tmp_path):
    absent = str(tmp_path / "absent")
    client = TrainerClient(tmp_path / "trainer").start(TrainerConfig(model=absent, estimator="grpo"), 1)
    with pytest.raises(TrainerError, match=r"status 1; rank 0: .*absent"):
        client.pushed()


def test_a_method_that_is_none_is_refused_before_anything_starts():
    with pytest.raises(ValueError, match="estimator 'grop' is none of"):
        TrainerConfig(model="m", estimator="grop")
    with pytest.raises(ValueError, match="sao_running_mean has none"):
        TrainerConfig(model="m", estimator="sao_running_mean", critic={"value_when": "after"})
    with pytest.raises(ValueError, match="has no band of this kind"):
        TrainerConfig(model="m", estimator="kimi", eps_high=1.0)
