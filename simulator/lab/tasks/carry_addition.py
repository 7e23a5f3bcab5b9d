"""A world with answers of unequal length and difficulty: add two numbers of one to four digits.

A prompt holds both numbers, lowest digit first, each in four columns (blank where it has no digit):
`7 4 . . + 5 . . . =` asks for 47 + 5. The answer is written the same way and ended by a stop token,
`2 5 stop`: in that order a carry is known before it is needed, so two layers can learn it. Long sums are
hard, since every digit has to be right, and take more tokens: difficulty and length go together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from simulator.lab.draws import KeyedDraws
from simulator.lab.tasks.game import CHOOSE, END, Demonstration

PLUS: Final = 10
EQUALS: Final = 11
BLANK: Final = 12
STOP: Final = 13


def _numbers(rng: np.random.Generator, rows: int, most_digits: int) -> NDArray[np.int64]:
    """Pairs, `[rows, 2]`: the number of digits is uniform, and then the number among those that have it."""
    digits = rng.integers(1, most_digits + 1, (rows, 2))
    lowest = np.where(digits == 1, 0, 10 ** (digits - 1))
    return rng.integers(lowest, 10**digits, dtype=np.int64)


@final
@dataclass(frozen=True, kw_only=True)
class CarryAddition:
    """a + b, exactly right or not.

    Args:
        seed: of the prompts.
        most_digits: of each number; the number of digits is uniform on 1..`most_digits`.
    """

    seed: int
    most_digits: int = 4
    _drawn: KeyedDraws = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        draws = KeyedDraws(self.seed, "prompts", lambda rng, rows: _numbers(rng, rows, self.most_digits))
        object.__setattr__(self, "_drawn", draws)

    @property
    def vocabulary(self) -> int:
        return STOP + 1

    @property
    def prompt_tokens(self) -> int:
        return 2 * self.most_digits + 2

    @property
    def response_tokens(self) -> int:
        """The digits of the largest sum, and the stop token."""
        return self.most_digits + 2

    def prompts(self, prompt_ids: NDArray[np.int64], /) -> Int[Tensor, "B P"]:
        """The same sum for the same id."""
        return self.written(torch.from_numpy(self._drawn.rows(prompt_ids)))

    def written(self, numbers: Int[Tensor, "B 2"]) -> Int[Tensor, "B P"]:
        """Sums as prompts."""
        columns = _digits(numbers, self.most_digits, fill=BLANK)
        plus, equals = (numbers.new_full((len(numbers), 1), sign) for sign in (PLUS, EQUALS))
        return torch.cat([columns[:, 0], plus, columns[:, 1], equals], dim=1)

    def read(self, prompts: Int[Tensor, "B P"]) -> Int[Tensor, "B 2"]:
        """The numbers that a prompt asks for."""
        powers = 10 ** torch.arange(self.most_digits)
        columns = torch.stack(
            [prompts[:, : self.most_digits], prompts[:, self.most_digits + 1 : 2 * self.most_digits + 1]], 1
        )
        return (columns.where(columns < PLUS, 0) * powers).sum(-1)

    def said_tokens(self, prompts: Int[Tensor, "B P"], /) -> Int[Tensor, " B"]:
        """Digits of the sum, and the stop token."""
        return _length(self.read(prompts).sum(-1)) + 1

    def follow(
        self,
        prompts: Int[Tensor, "B P"],  # noqa: ARG002
        tokens: Int[Tensor, "B T"],
        position: int,
        /,
    ) -> Int[Tensor, " B"]:
        """The model writes until it stops."""
        stopped = (tokens[:, :position] == STOP).any(-1)
        return torch.where(stopped, END, CHOOSE)

    def rewards(
        self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], action_mask: Bool[Tensor, "B T"], /
    ) -> Float[Tensor, " B"]:
        """1 where the sum is written without a mistake and stopped, else 0."""
        right = self.demonstration(prompts)
        width = max(tokens.shape[1], self.response_tokens)
        said, wanted = (
            torch.nn.functional.pad(t.masked_fill(~mask, BLANK), (0, width - t.shape[1]), value=BLANK)
            for t, mask in ((tokens, action_mask), (right.tokens, right.action_mask))
        )
        return (said == wanted).all(-1).float()

    def demonstration(self, prompts: Int[Tensor, "B P"], /) -> Demonstration:
        """The sum's digits, lowest first, and the stop token."""
        total = self.read(prompts).sum(-1)
        length = _length(total)[:, None]
        place = torch.arange(self.response_tokens)
        tokens = _digits(total, self.response_tokens, fill=0)
        tokens = tokens.masked_fill(place == length, STOP)
        return Demonstration(tokens.masked_fill(place > length, 0), place <= length)

    def relative_length(self, prompt_id: int, /) -> float:
        """Digits of the longer number over their mean.

        The length of the answer, less the stop token and what a last carry adds, so that its mean is exactly
        1: with n = `most_digits`, the mean of the longer is (n + 1)(4 n - 1) / (6 n).
        """
        n = self.most_digits
        longer = int(_length(torch.from_numpy(self._drawn.rows(np.array([prompt_id])))).max())
        return longer * 6 * n / ((n + 1) * (4 * n - 1))


def _digits(numbers: Int[Tensor, "*B"], columns: int, *, fill: int) -> Int[Tensor, "*B columns"]:
    """Decimal digits, lowest first; `fill` beyond the highest."""
    place = torch.arange(columns)
    return (numbers[..., None] // 10**place % 10).where(place < _length(numbers)[..., None], fill)


def _length(numbers: Int[Tensor, "*B"]) -> Int[Tensor, "*B"]:
    """Decimal digits of each number; 0 has one."""
    return (numbers[..., None] >= 10 ** torch.arange(1, 10)).sum(-1) + 1
