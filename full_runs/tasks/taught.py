"""Where does the tiny model start from? From supervised steps on right responses, to a stated accuracy.

Learning by reward begins with a model that is right at times. The result is kept on disk, under a digest of
all that decides it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from jaxtyping import Bool, Float, Int
from torch import Tensor

from full_runs.tasks import tiny_model
from full_runs.tasks.tiny_model import TinyModel, made, save
from simulator.lab.models.warm_start import WarmStart
from simulator.lab.tasks.game import CHOOSE, END, Game
from simulator.lab.tasks.played import RANGE, WARM_START


def taught(game: Game, sizes: TinyModel, recipe: WarmStart, *, cache: Path) -> Path:
    """The folder of a model that reached the recipe's accuracy, made or from the cache.

    Raises:
        RuntimeError: the accuracy was not reached in the recipe's most steps.
    """
    folder = cache / f"taught-{_digest(game, sizes, recipe)}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".taught-", dir=cache))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more threads add in another order, and make another model
    try:
        model = made(sizes, vocabulary=game.vocabulary, positions=game.prompt_tokens + game.response_tokens)
        teach(game, model, recipe)
        save(model, unfinished, vocabulary=game.vocabulary)
        unfinished.chmod(0o755)
        os.replace(unfinished, folder)
    except OSError:
        if not folder.is_dir():  # else another run was first
            raise
    finally:
        torch.set_num_threads(threads)
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def teach(game: Game, model: Any, recipe: WarmStart) -> float:
    """Supervised steps in place; the accuracy that was reached.

    Raises:
        RuntimeError: it was not reached.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
    checks = game.prompts(WARM_START + RANGE // 2 + np.arange(recipe.check_prompts))
    draws = torch.Generator().manual_seed(0)
    best = -1.0
    for step in range(recipe.most_steps + 1):
        if step % recipe.check_every == 0:
            accuracy = mean_reward(game, model, checks, draws)
            best = max(best, accuracy)
            if accuracy >= recipe.accuracy:
                return accuracy
        prompts = game.prompts(WARM_START + step * recipe.batch + np.arange(recipe.batch))
        right = game.demonstration(prompts)
        loss = -_log_probs(model, prompts, right.tokens)[right.action_mask].mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    raise RuntimeError(
        f"{recipe.most_steps} steps of {recipe.batch} did not bring {game!r} to an accuracy of"
        f" {recipe.accuracy}: the best was {best:.3f}"
    )


def mean_reward(game: Game, model: Any, prompts: Int[Tensor, "B P"], draws: torch.Generator) -> float:
    """Of responses sampled at temperature 1."""
    tokens, action_mask = played(game, model, prompts, draws)
    return game.rewards(prompts, tokens, action_mask).mean().item()


@torch.no_grad()
def played(
    game: Game, model: Any, prompts: Int[Tensor, "B P"], draws: torch.Generator
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Responses, and where the model chose; the prefix is read anew for each token: responses are short."""
    tokens = torch.zeros(len(prompts), 0, dtype=torch.long)
    action_mask = torch.zeros(len(prompts), 0, dtype=torch.bool)
    for position in range(game.response_tokens):
        follows = game.follow(prompts, tokens, position)
        if bool((follows == END).all()):
            break
        logits = model(torch.cat([prompts, tokens], dim=1)).logits[:, -1].float()
        sampled = torch.multinomial(logits.softmax(-1), 1, generator=draws)[:, 0]
        chosen = follows == CHOOSE
        tokens = torch.cat([tokens, torch.where(chosen, sampled, follows.clamp(min=0))[:, None]], dim=1)
        action_mask = torch.cat([action_mask, chosen[:, None]], dim=1)
    return tokens, action_mask


def _log_probs(model: Any, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    logits = model(torch.cat([prompts, tokens], dim=1)).logits[:, prompts.shape[1] - 1 : -1]
    said: Tensor = logits.float().log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    return said


def _digest(game: Game, sizes: TinyModel, recipe: WarmStart) -> str:
    """Everything that decides the weights, the code that makes them included."""
    total = hashlib.sha256()
    for part in (game, sizes, recipe, torch.__version__, transformers.__version__):
        total.update(repr(part).encode() + b"\0")
    for module in (tiny_model.__file__, __file__):
        total.update(Path(module).read_bytes())
    right = game.demonstration(game.prompts(np.arange(256)))
    total.update(right.tokens.numpy().tobytes())
    return total.hexdigest()[:24]
