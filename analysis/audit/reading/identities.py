"""Was this rollout there before? A sample of hashes that never grows beyond a bound, over all files of a run.

A hash is in the sample if its last bits are zero. When the sample is full, one more bit is asked for, half of
it goes, and the counts are halved: shares stay what they were on average.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final, Literal, final

MAX_HASHES: Final = 16_384
Seen = Literal["not sampled", "new", "in this update", "in another update"]


@final
@dataclass(slots=True, kw_only=True)
class Identities:
    """The fold: `add` each rollout."""

    sampled: int = 0
    again: int = 0
    """Of the sampled ones, those that another update had before."""
    by_hash: dict[int, float] = field(default_factory=dict)
    """The update that a hash came in first."""
    bits: int = 0

    def add(self, identity: object, update: float) -> Seen:
        """Count one rollout."""
        key = hash_of(identity)
        if key & ((1 << self.bits) - 1):
            return "not sampled"
        self.sampled += 1
        if key in self.by_hash:
            if self.by_hash[key] == update:
                return "in this update"
            self.again += 1
            return "in another update"
        self.by_hash[key] = update
        while len(self.by_hash) > MAX_HASHES:
            self.bits += 1
            low = (1 << self.bits) - 1
            self.by_hash = {one: at for one, at in self.by_hash.items() if not one & low}
            self.sampled, self.again = self.sampled // 2, self.again // 2
        return "new"


def hash_of(value: object) -> int:
    """The same in every process, unlike Python's own."""
    text = repr(value).encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
