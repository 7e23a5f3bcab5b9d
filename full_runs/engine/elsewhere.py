"""How is an engine used that somebody else started, on this host or another?

It is asked, and never started or ended. Before its first weights it must show that it is the right one:
paths, room for the longest rollout, our worker extension, and parameters of the model's names and shapes. One
that does not answer is waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

import torch

from full_runs.engine.client import EngineClient, EngineError, EngineGoneError
from full_runs.engine.digests import Shapes, inventory
from full_runs.engine.launch import ServerOptions
from full_runs.engine.layout import EXPERTS, as_engine
from full_runs.engine.server import ServerDiedError

_ASK_AGAIN_S: Final = 1.0


@final
class Elsewhere:
    """An engine at a URL.

    Args:
        url: such as `http://node-3:8000`.
        api_key: that it asks for, if any.
        model: a folder with weights of the shapes that it is to hold.
        options: that it would be started with here, and must agree with.
    """

    holds_model = False
    """Who knows what it was used for."""
    again = "asked again"

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None,
        model: Path,
        options: ServerOptions,
    ) -> None:
        self.url = url
        self.api_key = api_key
        self.options = options
        self._wanted = inventory(model)

    async def ready(self, client: EngineClient) -> None:
        """Wait until it answers, and look at it.

        Raises:
            ServerDiedError: it does not answer in time, or ended meanwhile.
            ValueError: it lacks something, refuses the key, or holds another model.
        """
        patience_s = self.options.ready_timeout_s
        end_s = time.monotonic() + patience_s
        while not await client.is_healthy():
            if time.monotonic() > end_s:
                raise ServerDiedError(f"the engine at {self.url} did not answer in {patience_s:.0f} s")
            await asyncio.sleep(_ASK_AGAIN_S)
        try:
            await client.check()
            room = await client.most_tokens()
            settings = await client.settings()
            held = await client.parameters()
        except EngineGoneError as gone:
            raise ServerDiedError(str(gone)) from gone
        except EngineError as refused:
            raise ValueError(f"the engine at {self.url} cannot be used: {refused}") from refused
        if why := differing_settings(settings, room, self.options):
            raise ValueError(f"the engine at {self.url} was started otherwise: {'; '.join(why)}")
        check_model(held, self._wanted, where=self.url, whole=self.options.tensor_parallel == 1)

    def kill(self) -> None:
        """It is not ours."""

    async def stop(self) -> None:
        """It is not ours."""


def differing_settings(settings: Mapping[str, str], room: int, options: ServerOptions) -> list[str]:
    """What an engine would do otherwise than one that is started here; none if it will do.

    Args:
        settings: as its worker extension says them.
        room: tokens of a prompt and its response.
        options: of one that would be started here.
    """
    wanted = {
        "logprobs_mode": "processed_logprobs",
        "dtype": options.dtype,
        "tensor_parallel": str(options.tensor_parallel),
    }
    if options.weight_transfer is not None:
        wanted["weight_transfer"] = options.weight_transfer
    said = [
        f"{name} is {settings.get(name)}, not {value}"
        for name, value in wanted.items()
        if settings.get(name) != value
    ]
    if room < options.max_model_tokens:
        said.append(f"max_model_len is {room}, and a rollout has up to {options.max_model_tokens} tokens")
    if settings.get("prefix_caching") != "False" and not options.prefix_caching:
        said.append("it shares keys of equal prefixes, and keys_at_push keeps those of old weights")
    return said


def check_model(held: Shapes, wanted: Shapes, *, where: str, whole: bool) -> None:
    """Raise unless an engine's parameters are those of a model.

    Args:
        held: by the engine's names; of one of its processes.
        wanted: by the checkpoint's names.
        where: its address, for the message.
        whole: shapes are compared too, not names alone.

    Raises:
        ValueError: naming what is missing, too much, or of another shape.
    """
    if any(EXPERTS in name for name in wanted):
        return  # *choice*: what a push loads is checked then
    expected = _as_shapes(wanted)
    said = []
    if missing := sorted(expected.keys() - held.keys()):
        said.append(f"it lacks {', '.join(missing[:4])}")
    if extra := sorted(held.keys() - expected.keys()):
        said.append(f"it has {', '.join(extra[:4])}")
    said += [
        f"{name} has shape {tuple(held[name])}, not {shape}"
        for name, shape in sorted(expected.items())
        # A parameter that a processor's kernel has packed is empty.
        if whole and name in held and 0 not in held[name] and tuple(held[name]) != shape
    ]
    if said:
        raise ValueError(f"the engine at {where} holds another model: {'; '.join(said[:4])}")


def _as_shapes(wanted: Shapes) -> Mapping[str, tuple[int, ...]]:
    outlines = {name: torch.empty(shape, device="meta") for name, shape in wanted.items()}
    return {name: tuple(tensor.shape) for name, tensor in as_engine(outlines).items()}
