"""What goes between a controller and its trainer arrives as it was."""

import dataclasses

import pytest
import torch

from algorithms.rollout import Rollout
from full_runs.trainer.message import (
    Message,
    batch_of,
    from_bytes,
    of_lesson,
    prompts_of,
    to_bytes,
    to_lesson,
)
from tests.full_runs.trainer import tiny

pytest.importorskip("safetensors", reason=tiny.WHY)


def test_a_lesson_comes_back_bit_for_bit():
    lesson = tiny.lesson(0)
    back = to_lesson(
        from_bytes(to_bytes(Message({"command": "train"}, of_lesson(lesson)))).tensors, torch.device("cpu")
    )
    assert torch.equal(back.prompts, lesson.prompts)
    for field in dataclasses.fields(lesson.batch):
        sent, came = getattr(lesson.batch, field.name), getattr(back.batch, field.name)
        assert (sent is None and came is None) or (torch.equal(sent, came) and sent.dtype == came.dtype)


def test_words_come_back_numbers_that_are_none_too():
    content = {"metrics": {"k3": 0.1, "explained_variance": float("nan")}, "folder": "ü"}
    back = from_bytes(to_bytes(Message(content, {})))
    assert repr(back.content) == repr(content)


@pytest.mark.parametrize("data", [b"", b"\x80\x04K\x01.", b"\xff" * 64])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(ValueError, match="no message of a trainer"):
        from_bytes(data)


def test_padding_is_no_token():
    rollouts = [
        Rollout(
            prompt_id=0,
            group_id=0,
            token_ids=tokens,
            action_mask=(True,) * len(tokens),
            behaviour_log_probs=(-1.0,) * len(tokens),
            policy_versions=(0,) * len(tokens),
            reward=1.0,
        )
        for tokens in ((5, 0), (7, 0, 0, 2))
    ]
    assert batch_of(rollouts).token_ids.tolist() == [[5, 0, -1, -1], [7, 0, 0, 2]]
    assert prompts_of([[0, 3], [4]]).tolist() == [[0, 3], [-1, 4]]
    with pytest.raises(ValueError, match="prompt 1 is empty"):
        prompts_of([[1], []])
    with pytest.raises(ValueError, match="at least one prompt"):
        prompts_of([])
