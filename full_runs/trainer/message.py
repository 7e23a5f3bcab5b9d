"""What do a controller and its trainer say to each other? Files of safetensors: numbers and JSON, no code.

A message is written beside its place and renamed, so whoever finds it finds it whole.
"""

from __future__ import annotations

import dataclasses
import json
import os
from array import array
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from algorithms.rollout import Batch, Rollout
from simulator.lab.models.lengths import PADDING
from simulator.lab.parts import Lesson

_PROMPTS = "prompts"


class Message(NamedTuple):
    """Some words and some tensors."""

    content: dict[str, Any]
    tensors: dict[str, Tensor]


def to_bytes(message: Message) -> bytes:
    """The message as a safetensors file."""
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in message.tensors.items()}
    data: bytes = save(tensors, metadata={"content": json.dumps(message.content)})
    return data


def from_bytes(data: bytes) -> Message:
    """What `to_bytes` was given.

    Raises:
        ValueError: these bytes are no message.
    """
    from safetensors.torch import load

    try:
        length = int.from_bytes(data[:8], "little")
        content = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["content"])
        return Message(content, load(data))
    except Exception as broken:
        raise ValueError(f"no message of a trainer: {' '.join(str(broken).split())[:200]}") from None


def put(file: Path, data: bytes) -> None:
    """Write a file in one step."""
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(data)
    os.replace(part, file)


def of_lesson(lesson: Lesson) -> dict[str, Tensor]:
    """A lesson's tensors by name."""
    batch = {field.name: getattr(lesson.batch, field.name) for field in dataclasses.fields(lesson.batch)}
    present = {name: tensor for name, tensor in batch.items() if tensor is not None}
    return {**present, _PROMPTS: lesson.prompts}


def to_lesson(tensors: Mapping[str, Tensor], device: torch.device) -> Lesson:
    """What `of_lesson` took apart."""
    there = {name: tensor.to(device) for name, tensor in tensors.items()}
    prompts = there.pop(_PROMPTS)
    return Lesson(prompts=prompts, batch=Batch(**there))


def batch_of(rollouts: Sequence[Rollout]) -> Batch:
    """Rollouts padded with what a model does not read: `Batch.from_rollouts`, but for the token ids there.

    Raises:
        ValueError: `rollouts` is empty.
    """
    batch = Batch.from_rollouts(rollouts)
    lengths = torch.tensor([len(rollout.token_ids) for rollout in rollouts])
    there = torch.arange(batch.token_ids.shape[1]) < lengths[:, None]
    return dataclasses.replace(batch, token_ids=batch.token_ids.where(there, PADDING))


def prompts_of(prompts: Sequence[Sequence[int]]) -> Int[Tensor, "B P"]:
    """Prompts padded on the left.

    Raises:
        ValueError: no prompt, or one without a token.
    """
    if not prompts:
        raise ValueError("a batch needs at least one prompt, got none")
    if not all(map(len, prompts)):
        raise ValueError(f"prompt {[len(p) for p in prompts].index(0)} is empty")
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    width = int(lengths.max())
    there = torch.arange(width) >= width - lengths[:, None]
    tokens = torch.frombuffer(array("q", chain.from_iterable(prompts)), dtype=torch.int64)
    return torch.full(there.shape, PADDING).masked_scatter(there, tokens)
