"""A game played out with given choices: what a player does with `follow`, and nothing else."""

from collections.abc import Sequence

import torch
from torch import Tensor

from simulator.lab.tasks.game import CHOOSE, END, Demonstration, Game


def play(game: Game, prompts: Tensor, choices: Tensor) -> Demonstration:
    """The choice at each position where the model has one; `choices` elsewhere are not looked at.

    Padding is made of junk, so that a game that reads it is found out.
    """
    tokens = torch.full((len(prompts), game.response_tokens), game.vocabulary - 1)
    mask = torch.zeros_like(tokens, dtype=torch.bool)
    over = torch.zeros(len(prompts), dtype=torch.bool)
    for t in range(game.response_tokens):
        follows = game.follow(prompts, tokens, t)
        assert follows.shape == over.shape
        assert ((follows >= 0) & (follows < game.vocabulary) | (follows == CHOOSE) | (follows == END)).all()
        assert (follows[over] == END).all(), f"what had ended goes on at {t}"
        over |= follows == END
        mask[:, t] = follows == CHOOSE
        said = follows.where(follows != CHOOSE, choices[:, t])
        tokens[:, t] = said.where(follows != END, tokens[:, t])
    return Demonstration(tokens, mask)


def say(game: Game, prompt: Tensor, chosen: Sequence[int]) -> tuple[list[int], list[bool]]:
    """One rollout of a model that chooses these tokens in order, whatever comes between; then the response.

    It ends where the game ends it, or where the model has nothing left to say.
    """
    tokens: list[int] = []
    mask: list[bool] = []
    left = list(chosen)
    while len(tokens) < game.response_tokens:
        row = torch.tensor([tokens + [0] * (game.response_tokens - len(tokens))])
        follows = int(game.follow(prompt[None], row, len(tokens)))
        if follows == END or (follows == CHOOSE and not left):
            break
        mask.append(follows == CHOOSE)
        tokens.append(left.pop(0) if follows == CHOOSE else follows)
    return tokens, mask


def reward(game: Game, prompt: Tensor, tokens: Sequence[int], mask: Sequence[bool]) -> float:
    """Of one response, padded with junk."""
    spare = game.response_tokens - len(tokens)
    row = torch.tensor([[*tokens, *[game.vocabulary - 1] * spare]])
    return float(game.rewards(prompt[None], row, torch.tensor([[*mask, *[False] * spare]])))
