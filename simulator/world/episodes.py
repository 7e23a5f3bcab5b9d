"""What happens in a rollout besides its answer: turns, what tools return and how long they take.

Everything is drawn from streams of its own and is a function of the seed, the prompt and the member, whatever
is asked first: a rollout's first turn has the length that it would have if it were the only one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Literal, NamedTuple, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from simulator.streams import stream
from simulator.world.amounts import Amount
from simulator.world.lengths import LengthLaw

_BLOCK_ROLLOUTS: Final = 1024
_TURNS, _TOKENS, _OBSERVATIONS, _LATENCY, _START, _REWARD = range(6)

MOST_TURNS: Final = 10_000


class Episode(NamedTuple):
    """What one rollout will do, decided before it starts."""

    turn_tokens: tuple[int, ...]
    """That the model makes in each turn, at least 1."""
    observation_tokens: tuple[int, ...] = ()
    """That the environment returns after each turn but the last."""
    latency_s: tuple[float, ...] = ()
    """Until it returns them."""
    start_s: float = 0.0
    """Until the environment is there; nothing can be asked of an engine before."""
    reward_s: float = 0.0
    """From the last token until the reward is known."""

    @property
    def action_tokens(self) -> int:
        return sum(self.turn_tokens)

    def cut(self, tokens: int) -> Episode:
        """What is left of it if the environment fails after so many tokens: no reward, then."""
        if tokens >= self.action_tokens:
            return self
        turns: list[int] = []
        while tokens > 0:
            turns.append(min(tokens, self.turn_tokens[len(turns)]))
            tokens -= turns[-1]
        between = len(turns) - 1
        return Episode(
            tuple(turns), self.observation_tokens[:between], self.latency_s[:between], self.start_s
        )

    @property
    def environment_s(self) -> float:
        """Before the last token."""
        return self.start_s + sum(self.latency_s)


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class SingleTurn(_Record):
    """A prompt and an answer."""

    kind: Literal["single_turn"] = "single_turn"


@final
class MultiTurn(_Record):
    """The model acts, its environment answers, and so on; each action is as long as `lengths` say."""

    kind: Literal["multi_turn"] = "multi_turn"
    mean_turns: Annotated[float, Field(ge=1, le=MOST_TURNS)] = 4.0
    """Before `most_turns` cuts it."""
    turns_law: Literal["fixed", "geometric"] = "fixed"
    """Geometric: after each turn the episode goes on with the same probability."""
    most_turns: Annotated[int, Field(ge=1, le=MOST_TURNS)] = MOST_TURNS
    observation_tokens: Amount = Amount()
    """Returned after each turn but the last, in whole tokens; part of the prefix of the next."""
    latency_s: Amount = Amount()
    """Of the environment, between two turns."""
    slot_between_turns: Literal["kept", "freed"] = "freed"
    """While the environment works: whether the rollout's slot waits for it, or decodes another one. What
    comes back to an engine without a free slot is the first to get one there."""
    keys_between_turns: Literal["kept", "recomputed"] = "kept"
    """Whether keys and values stay, and take room in the engine, or the next turn begins by computing those
    of the whole prefix again."""

    @model_validator(mode="after")
    def _turns_are_whole(self) -> Self:
        if self.turns_law == "fixed" and not float(self.mean_turns).is_integer():
            raise ValueError(f"mean_turns ({self.mean_turns}) of a fixed number must be whole")
        return self


EpisodeLaw: TypeAlias = SingleTurn | MultiTurn


@final
class DrawnEpisodes:
    """Episodes by prompt and member, a block of them at a time.

    Args:
        first_turn_tokens: by prompt and member.
        lengths: of the other turns.
        start_s: environment start-up.
        reward_s: from the last token to the reward.
    """

    def __init__(
        self,
        law: EpisodeLaw,
        *,
        first_turn_tokens: Callable[[int, int], int],
        lengths: LengthLaw,
        start_s: Amount,
        reward_s: Amount,
        seed: int,
        group_size: int,
    ) -> None:
        self.law = law
        self.first_turn_tokens = first_turn_tokens
        self.lengths = lengths
        self.start_s = start_s
        self.reward_s = reward_s
        self.seed = seed
        self.group_size = group_size
        self._blocks: dict[int, list[Episode]] = {}

    def episode(self, prompt_id: int, member: int) -> Episode:
        """What `member` (from 0) of `prompt_id` (from 0) will do."""
        block, place = divmod(prompt_id * self.group_size + member, _BLOCK_ROLLOUTS)
        episodes = self._blocks.get(block)
        if episodes is None:
            # Prompts come nearly in order; an older block can always be drawn again.
            if len(self._blocks) >= 4:
                del self._blocks[min(self._blocks)]
            episodes = self._blocks[block] = self._draw(block)
        drawn = episodes[place]
        return drawn._replace(turn_tokens=(self.first_turn_tokens(prompt_id, member), *drawn.turn_tokens))

    def _draw(self, block: int) -> list[Episode]:
        """A block of episodes, without their first turns."""

        def uniform(what: int, count: int) -> NDArray[np.float64]:
            return stream(self.seed, "environment", what, block).random(count)

        start_s = self.start_s.quantile(uniform(_START, _BLOCK_ROLLOUTS)).tolist()
        reward_s = self.reward_s.quantile(uniform(_REWARD, _BLOCK_ROLLOUTS)).tolist()
        if isinstance(self.law, SingleTurn):
            return [Episode((), start_s=s, reward_s=r) for s, r in zip(start_s, reward_s, strict=True)]
        ends = np.cumsum(turns(self.law, uniform(_TURNS, _BLOCK_ROLLOUTS)) - 1).tolist()
        more = ends[-1]
        tokens = self.lengths.quantile(uniform(_TOKENS, more)).tolist()
        observations = np.rint(self.law.observation_tokens.quantile(uniform(_OBSERVATIONS, more)))
        returned = observations.astype(np.int64).tolist()
        latency_s = self.law.latency_s.quantile(uniform(_LATENCY, more)).tolist()
        spans = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
        return [
            Episode(tuple(tokens[own]), tuple(returned[own]), tuple(latency_s[own]), start_s[i], reward_s[i])
            for i, own in enumerate(spans)
        ]


def turns(law: MultiTurn, probability: NDArray[np.float64]) -> NDArray[np.int64]:
    r"""How many turns? Geometric from 1: :math:`P(n > k) = (1 - 1/m)^k` for a mean of m."""
    if law.turns_law == "fixed":
        number = np.full(probability.shape, law.mean_turns)
    elif law.mean_turns == 1:
        number = np.ones(probability.shape)
    else:
        number = 1 + np.floor(np.log1p(-probability) / np.log1p(-1 / law.mean_turns))
    return np.asarray(np.minimum(number, law.most_turns), dtype=np.int64)
