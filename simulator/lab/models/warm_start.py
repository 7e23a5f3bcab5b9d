"""Where does learning by reward start from? From a model taught by demonstrations until it is right at times.

Reinforcement learning of a language model starts from one that already succeeds now and then. Here that is
cross entropy on right responses, stopped at a stated accuracy. The result is a function of game, sizes, seed
and the code that makes it; it is kept on disk under a digest of all of these.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from simulator import streams
from simulator.lab import draws
from simulator.lab.models import decoding, gpt, kv_cache, lengths
from simulator.lab.models.decoding import converse
from simulator.lab.models.gpt import Gpt, Sizes
from simulator.lab.models.lengths import PADDING
from simulator.lab.tasks.game import Game


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStart:
    """How a model is taught.

    Raises:
        ValueError: a number that is not positive, or an accuracy above 1.
    """

    accuracy: float = 0.4
    """Mean reward of responses sampled for prompts outside the lessons, at which teaching stops."""
    most_steps: int = 3000
    batch: int = 128
    learning_rate: float = 2e-3
    check_every: int = 5
    """Steps between two measurements of the accuracy."""
    check_prompts: int = 256

    def __post_init__(self) -> None:
        numbers = {name: getattr(self, name) for name in self.__slots__}
        if min(numbers.values()) <= 0 or self.accuracy > 1:
            raise ValueError(
                f"a warm start needs positive numbers and an accuracy of at most 1, got {numbers}"
            )


class NotReachedError(ValueError):
    """Teaching ended below the accuracy that was asked for."""


class Lessons(NamedTuple):
    """Which numbers the teaching uses."""

    prompt_ids: Callable[[int, int], NDArray[np.int64]]
    """(first, count) -> ids of prompts to be taught."""
    checks: NDArray[np.int64]
    """Ids of prompts to be asked, none of which is taught."""
    uniforms: Float[Tensor, "B T"]
    """Of the responses to `checks`."""


def taught(game: Game, sizes: Sizes, seed: int, recipe: WarmStart, lessons: Lessons) -> Gpt:
    """A model that reached the recipe's accuracy, made from demonstrations.

    Args:
        game: what is taught.
        sizes: of the network.
        seed: of the starting weights.
        recipe: when to stop, and how fast to learn.
        lessons: prompts and uniforms.

    Raises:
        NotReachedError: the accuracy was not reached in `most_steps`.
    """
    threads = torch.get_num_threads()
    # More threads would add in another order, and make another model.
    torch.set_num_threads(1)
    try:
        return _teach(game, game_network(game, sizes, seed), recipe, lessons)
    finally:
        torch.set_num_threads(threads)


def game_network(game: Game, sizes: Sizes, seed: int) -> Gpt:
    """An untaught model that fits a game."""
    return Gpt(
        sizes,
        vocabulary=game.vocabulary,
        positions=game.prompt_tokens + game.response_tokens,
        generator=torch.Generator().manual_seed(seed),
    )


def _teach(game: Game, model: Gpt, recipe: WarmStart, lessons: Lessons) -> Gpt:
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate, fused=True)
    checks = game.prompts(lessons.checks)
    best = -1.0
    for step in range(recipe.most_steps + 1):
        if step % recipe.check_every == 0:
            accuracy = _accuracy(game, model, checks, lessons.uniforms)
            best = max(best, accuracy)
            if accuracy >= recipe.accuracy:
                return model
        prompts = game.prompts(lessons.prompt_ids(step * recipe.batch, recipe.batch))
        right = game.demonstration(prompts)
        beyond = right.action_mask.flip(1).cumsum(1).flip(1) == 0
        log_probs = model.log_probs(prompts, right.tokens.masked_fill(beyond, PADDING))
        loss = -log_probs[right.action_mask].mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    raise NotReachedError(
        f"world.warm_start_accuracy is {recipe.accuracy}: {recipe.most_steps} steps (warm_start_steps)"
        f" of {recipe.batch} demonstrations reached {best:.3f} at best; the last loss was {loss.item():.3f}"
    )


def _accuracy(game: Game, model: Gpt, prompts: Int[Tensor, "B P"], uniforms: Float[Tensor, "B T"]) -> float:
    versions = torch.zeros(uniforms.shape, dtype=torch.long)
    said = converse(game, prompts, [model.snapshot()], versions, uniforms)
    return game.rewards(prompts, said.tokens, said.action_mask).mean().item()


def default_cache() -> Path:
    """$POLICYLAG_CACHE, or ~/.cache/policylag."""
    return Path(os.environ.get("POLICYLAG_CACHE") or Path.home() / ".cache" / "policylag")


def digest(game: Game, sizes: Sizes, seed: int, recipe: WarmStart, lessons: Lessons) -> str:
    """Names a warm start by all that decides it.

    Raises:
        ValueError: `repr(game)` holds an address, so that equal games would look different.
    """
    if " at 0x" in repr(game):
        raise ValueError(f"{game!r} does not say what defines it; a frozen dataclass does")
    total = hashlib.sha256()
    for part in (game, sizes, seed, recipe, lessons.prompt_ids(0, 2), torch.__version__, np.__version__):
        total.update(repr(part).encode() + b"\0")
    total.update(lessons.checks.tobytes() + lessons.uniforms.numpy().tobytes())
    # What a game is made of besides its own module shows in what it asks and in what it calls right.
    prompts = game.prompts(lessons.checks)
    for tensor in (prompts, *game.demonstration(prompts)):
        total.update(tensor.numpy().tobytes())
    for module in (
        streams,
        draws,
        gpt,
        lengths,
        kv_cache,
        decoding,
        sys.modules[type(game).__module__],
        sys.modules[__name__],
    ):
        total.update(Path(str(module.__file__)).read_bytes() + b"\0")
    return total.hexdigest()


def warm_started(
    game: Game, sizes: Sizes, seed: int, recipe: WarmStart, lessons: Lessons, *, cache: Path | None
) -> Gpt:
    """As `taught`, from the cache if it is there.

    Args:
        cache: folder; None for no cache. A file that cannot be read is made again.
    """
    if cache is None:
        return taught(game, sizes, seed, recipe, lessons)
    path = cache / f"warm-start-{digest(game, sizes, seed, recipe, lessons)[:32]}.pt"
    model = game_network(game, sizes, seed)
    with contextlib.suppress(OSError, EOFError, RuntimeError, KeyError, TypeError, pickle.UnpicklingError):
        model.load_state_dict(torch.load(path, weights_only=True))
        return model
    model = taught(game, sizes, seed, recipe, lessons)
    _write(model, path)
    return model


def _write(model: Gpt, path: Path) -> None:
    """All of the file or none of it, also when several runs write it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(model.state_dict(), file)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
