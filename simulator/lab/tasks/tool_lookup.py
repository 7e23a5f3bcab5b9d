"""Can a model follow pointers that only its environment knows, over 2 to 40 turns of calls and observations?

A prompt names a start node of a hidden chain. In a turn the model writes whatever words it likes, and then
`CALL node`; the environment returns what the node points to. At the chain's end that is a value and not a
node, and the model is to say `ANSWER value`. The reward is 1 for the right value and 0 for any other.

- Everything that is not a call or an answer is a thought: it costs tokens and does nothing.
- A call of a node that is not the chain's current one returns what *that* node points to, so a slip leads
  astray for good, and success falls with depth: long prompts are hard ones.
- The k-th call of a rollout looks into page k of the prompt's table, a rotation of the 16 nodes by a number
  hashed from prompt and k. A rollout reads one entry a page, which is uniform over the nodes, so richer
  permutations could not be told apart; pages let a chain be longer than there are nodes.
- *Choice*: the prompt's digits, read as a number, order prompts by depth, so that a critic can learn to tell
  hard prompts from easy ones; nothing else in them can be learnt but the start node, which is the last.
- An observation may be longer: words that mean nothing come first, and where the call points to comes last.
- A call may crash its environment, which ends the episode with reward 0. Whether it does is hashed from the
  prompt and all that was said before: equal transcripts meet equal fates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from numpy.typing import NDArray
from torch import Tensor

from simulator.lab.tasks import numbered
from simulator.lab.tasks.depths import above, mean_turns, turns_at
from simulator.lab.tasks.game import CHOOSE, END, Demonstration

NODES: Final = numbered.BASE
"""Tokens 0 .. 15 are nodes; a digit of the prompt is one too."""
VALUES: Final = NODES
"""The first of as many values."""
CALL, ANSWER, CRASH = 2 * NODES, 2 * NODES + 1, 2 * NODES + 2
WORDS: Final = CRASH + 1
"""The first of the words; demonstrations think one before each call or answer."""
WORD_COUNT: Final = 4
SPOKEN: Final = 3
"""Tokens of the model in a turn of right play: a word, CALL and a node, or ANSWER and a value."""

_PAGE, _WORD, _ACCIDENT, _NOISE = range(4)  # what a hash is for


@final
@dataclass(frozen=True, kw_only=True)
class ToolLookup:
    """The game; see the module.

    Args:
        seed: of the run: which prompts its ids are.
        most_turns: calls and the answer of the deepest prompt; fewer make faster runs.
        tail: exponent of the depths' tail. *Choice*: 1.5; at 1 a network of 0.2 million parameters
            had learnt nothing yet when, at 1.5 and 2, it was well under way.
        crash_probability: that a call crashes its environment, in [0, 1).
        observation_tokens: of every observation, at least 1.

    Raises:
        ValueError: an argument out of range.
    """

    vocabulary = WORDS + WORD_COUNT
    prompt_tokens = numbered.DIGITS

    seed: int
    most_turns: int = 40
    tail: float = 1.5
    crash_probability: float = 0.0
    observation_tokens: int = 1
    _above: Float64[Tensor, " D"] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.crash_probability < 1:
            raise ValueError(f"crash_probability must lie in [0, 1), got {self.crash_probability}")
        if self.observation_tokens < 1:
            raise ValueError(f"observation_tokens must be at least 1, got {self.observation_tokens}")
        object.__setattr__(self, "_above", above(most=self.most_turns, tail=self.tail))

    @property
    def response_tokens(self) -> int:
        """Those of the deepest prompt's demonstration, and an observation to spare."""
        return self.turn_tokens * self.most_turns

    @property
    def turn_tokens(self) -> int:
        """What is said and observed in a turn of right play."""
        return SPOKEN + self.observation_tokens

    @property
    def mean_turns(self) -> float:
        """Turns of right play, over all prompts."""
        return mean_turns(self._above)

    def prompts(self, prompt_ids: NDArray[np.int64], /) -> Int[Tensor, "B P"]:
        """Eight digits; the last is the start node."""
        return numbered.enciphered(prompt_ids, seed=self.seed)

    def turns(self, prompts: Int[Tensor, "B P"], /) -> Int[Tensor, " B"]:
        """Calls of right play, and its answer."""
        share = (numbered.number(prompts).double() + 0.5) / numbered.IDS
        return turns_at(share, self._above)

    def said_tokens(self, prompts: Int[Tensor, "B P"], /) -> Int[Tensor, " B"]:
        """Of the demonstration, observations included; no observation follows the answer."""
        return self.turn_tokens * self.turns(prompts) - self.observation_tokens

    def relative_length(self, prompt_id: int, /) -> float:
        """Tokens of this prompt's demonstration over the mean of all prompts."""
        said = self.said_tokens(self.prompts(np.array([prompt_id])))
        return said.item() / (self.turn_tokens * self.mean_turns - self.observation_tokens)

    def follow(
        self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], position: int, /
    ) -> Int[Tensor, " B"]:
        """An observation after `CALL node`, nothing after `ANSWER x` or a crash; else the model's token."""
        if position < 2:  # too early for a call or an answer
            return torch.full_like(prompts[:, 0], CHOOSE)
        said = tokens[:, :position]
        calls = _calls(said)
        ended = (said[:, :-1] == ANSWER).any(-1) | self.crashed(said)
        follows = torch.where(ended, END, CHOOSE)
        rows = (calls[:, -self.observation_tokens :].any(-1) & ~ended).nonzero()[:, 0]
        follows[rows] = self._observed(prompts[rows], said[rows], calls[rows])
        return follows

    def crashed(self, tokens: Int[Tensor, "B T"], /) -> Bool[Tensor, " B"]:
        """Which rollouts their environment's crash ended? A model that writes CRASH crashes nothing."""
        return (_calls(tokens)[:, :-1] & (tokens[:, 2:] == CRASH)).any(-1)

    def rewards(
        self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], action_mask: Bool[Tensor, "B T"], /
    ) -> Float[Tensor, " B"]:
        """1 for the value at the end of the chain, 0 for another, or none."""
        # Nothing is chosen after ANSWER and a token more, so the mask leaves at most one pair.
        answered = (tokens[:, :-1] == ANSWER) & action_mask[:, 1:]
        return (answered & (tokens[:, 1:] == self._value(prompts)[:, None])).any(-1).float()

    def demonstration(self, prompts: Int[Tensor, "B P"], /) -> Demonstration:
        """Right play of an environment that does not crash."""
        numbers, turns = numbered.number(prompts)[:, None], self.turns(prompts)[:, None]
        turn = torch.arange(self.most_turns, device=prompts.device).expand(len(prompts), -1)
        calling, answering = turn < turns - 1, turn == turns - 1
        rotations = self._rotations(numbers, turn)
        pointed = (prompts[:, -1:] + rotations.cumsum(-1)) % NODES
        called = (pointed - rotations) % NODES
        at_end = VALUES * (turn == turns - 2)
        columns = (
            WORDS + numbered.hashed(numbers, turn, torch.full_like(turn, _WORD)) % WORD_COUNT,
            torch.where(calling, CALL, ANSWER),
            torch.where(calling, called, self._value(prompts)[:, None]),
            *(_noise(numbers, turn, torch.full_like(turn, i)) for i in range(self.observation_tokens - 1)),
            pointed + at_end,
        )
        spoken = torch.arange(self.turn_tokens, device=prompts.device) < SPOKEN
        mask = (calling | answering)[..., None] & spoken
        tokens = torch.stack(columns, -1).where(mask | calling[..., None], 0)
        return Demonstration(tokens.flatten(1), mask.flatten(1))

    def _observed(
        self, prompts: Int[Tensor, "B P"], said: Int[Tensor, "B T"], calls: Bool[Tensor, "B s"]
    ) -> Int[Tensor, " B"]:
        """The next token of the observation that the last call of each row returns."""
        numbers, page = numbered.number(prompts), calls.sum(-1) - 1
        came = calls.flip(-1).int().argmax(-1)  # tokens of this observation that are there already
        node = said.gather(1, said.shape[1] - 1 - came[:, None])[:, 0]
        pointed = (node + self._rotations(numbers, page)) % NODES
        # From the page of the chain's last node on, everything points to values.
        pointed = pointed + VALUES * (page >= self.turns(prompts) - 2)
        observed = pointed.where(came == self.observation_tokens - 1, _noise(numbers, page, came))
        if self.crash_probability == 0:
            return observed
        places = torch.arange(said.shape[1], device=said.device).expand_as(said)
        transcript = numbered.hashed(said, places).sum(-1)
        accident = numbered.hashed(numbers, transcript, torch.full_like(page, _ACCIDENT))
        crashes = (came == 0) & (accident < self.crash_probability * numbered.IDS)
        return observed.where(~crashes, CRASH)

    def _value(self, prompts: Int[Tensor, "B P"]) -> Int[Tensor, " B"]:
        """The token of the value at the end of the chain."""
        pages = torch.arange(self.most_turns - 1, device=prompts.device).expand(len(prompts), -1)
        rotations = self._rotations(numbered.number(prompts)[:, None], pages)
        along = rotations.where(pages < self.turns(prompts)[:, None] - 1, 0).sum(-1)
        return VALUES + (prompts[:, -1] + along) % NODES

    def _rotations(self, numbers: Int[Tensor, "*S"], pages: Int[Tensor, "*S"]) -> Int[Tensor, "*S"]:
        return numbered.hashed(numbers.expand_as(pages), pages, torch.full_like(pages, _PAGE)) % NODES


def _noise(
    numbers: Int[Tensor, "*S"], pages: Int[Tensor, "*S"], places: Int[Tensor, "*S"]
) -> Int[Tensor, "*S"]:
    """Words that begin an observation, by their place in it."""
    numbers, purpose = numbers.expand_as(pages), torch.full_like(pages, _NOISE)
    return WORDS + numbered.hashed(numbers, pages, places, purpose) % WORD_COUNT


def _calls(said: Int[Tensor, "B T"]) -> Bool[Tensor, "B s"]:
    """At which places does `CALL node` begin, before any answer?

    Observations are words, nodes, values or CRASH, so a CALL is always the model's own; and so is the token
    after it, since nothing is observed after CALL alone.
    """
    unanswered = (said == ANSWER).cumsum(-1) == 0
    return (unanswered & (said == CALL))[:, :-1] & (said[:, 1:] < NODES)
