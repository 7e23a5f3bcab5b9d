"""How does a trainer go on in other processes, of another number?

`torch.distributed.checkpoint` writes each rank's parts and puts them together for any number of ranks. Its
own storage keeps an index that is unpickled on loading; the one for safetensors keeps none, so that is used.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load as read_sharded
from torch.distributed.checkpoint.state_dict_saver import save as write_sharded

from full_runs.trainer.update import Trainer
from full_runs.trainer.weights import resharded

PROGRESS = "progress.json"


def save(trainer: Trainer, folder: Path, *, owner: Mapping[str, Any]) -> None:
    """Write all that a later update depends on (collective).

    The folder appears whole, in place of an older one.

    Args:
        owner: what the checkpoint belongs to; it cannot be loaded into anything else.
    """
    ranks, part = trainer.ranks, folder.with_name(f".{folder.name}.part")
    if ranks.rank == 0 and part.exists():
        shutil.rmtree(part)
    ranks.wait()
    write_sharded(
        _tensors(trainer, previous=trainer.previous_gradient is not None),
        storage_writer=HuggingFaceStorageWriter(str(part), save_distributed=True),
    )
    if ranks.rank == 0:
        progress = {
            "owner": owner,
            "updates": trainer.updates,
            "critic_fits": None if trainer.critic is None else trainer.critic.fits,
            "previous_gradient": trainer.previous_gradient is not None,
            "baseline": None if trainer.baseline is None else list(trainer.baseline.state().items()),
        }
        (part / PROGRESS).write_text(json.dumps(progress))
        if folder.exists():
            shutil.rmtree(folder)
        part.rename(folder)
    ranks.wait()


def load(trainer: Trainer, folder: Path, *, owner: Mapping[str, Any]) -> None:
    """Go back to what `save` wrote, on this number of ranks (collective).

    Raises:
        ValueError: there is no checkpoint, or it belongs to something else.
    """
    file = folder / PROGRESS
    if not file.is_file():
        raise ValueError(f"{folder} holds no checkpoint: {PROGRESS} is missing")
    progress = json.loads(file.read_text())
    wrong = {key: (kept, owner.get(key)) for key, kept in progress["owner"].items() if owner.get(key) != kept}
    if wrong:
        raise ValueError(f"{folder} belongs to another run: (kept, wanted) is {wrong}")
    resharded(trainer.policy)
    if trainer.critic is not None:
        resharded(trainer.critic.network)
        trainer.critic.fits = progress["critic_fits"]
    if progress["previous_gradient"]:
        trainer.previous_gradient = [torch.zeros_like(p.detach()) for p in trainer.parameters.values()]
    else:
        trainer.previous_gradient = None
    with torch.no_grad():
        read_sharded(
            _tensors(trainer, previous=progress["previous_gradient"]),
            storage_reader=HuggingFaceStorageReader(str(folder)),
        )
    if trainer.baseline is not None:
        kept = {prompt: tuple(past) for prompt, past in progress["baseline"]}
        trainer.baseline = trainer.baseline.recalled(kept)
    trainer.updates = progress["updates"]


def _tensors(trainer: Trainer, *, previous: bool) -> dict[str, Any]:
    """What is written and read in place, by name; the same names whatever has happened so far."""
    kept: dict[str, Tensor] = {}
    for name, parameter in trainer.parameters.items():
        kept[f"policy.{name}"] = parameter.detach()
    kept |= _moments("policy", trainer.optimizer, trainer.parameters)
    if previous and trainer.previous_gradient is not None:
        for name, gradient in zip(trainer.parameters, trainer.previous_gradient, strict=True):
            kept[f"previous.{name}"] = gradient
    if trainer.critic is not None:
        named = dict(resharded(trainer.critic.network).named_parameters())
        for name, parameter in named.items():
            kept[f"critic.{name}"] = parameter.detach()
        trained = {name: p for name, p in named.items() if p.requires_grad}
        kept |= _moments("critic", trainer.critic.optimizer, trained)
    return kept


def _moments(
    prefix: str, optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]
) -> dict[str, Tensor]:
    _begun(optimizer, parameters)
    return {
        f"{prefix}_optimizer.{name}.{key}": tensor
        for name, parameter in parameters.items()
        for key, tensor in optimizer.state[parameter].items()
        if isinstance(tensor, Tensor)
    }


def _begun(optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]) -> None:
    """Make the state that an optimizer else makes at its first step: zeros, which change no step."""
    if all(p in optimizer.state for p in parameters.values()):
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    fresh = [p for p in parameters.values() if p not in optimizer.state]
    for parameter in fresh:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    for parameter in fresh:
        for tensor in optimizer.state[parameter].values():
            if isinstance(tensor, Tensor):
                tensor.zero_()
