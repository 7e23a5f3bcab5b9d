"""Which weights did engines hold? Every version that was published and may still sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, final

SpeakerT = TypeVar("SpeakerT")


@final
class Versions(Generic[SpeakerT]):
    """Published weights by version: updates behind them. What is forgotten is freed."""

    def __init__(self) -> None:
        self._held: dict[int, SpeakerT] = {}
        self._newest: int | None = None

    def publish(self, version: int, weights: SpeakerT) -> None:
        """Hold these weights.

        Raises:
            ValueError: `version` is not newer than all before it, forgotten ones included.
        """
        if self._newest is not None and version <= self._newest:
            raise ValueError(f"version {version} is not newer than {self._newest}")
        self._held[version] = weights
        self._newest = version

    def forget(self, before: int) -> None:
        """Keep nothing older than version `before`."""
        for version in [v for v in self._held if v < before]:
            del self._held[version]

    def of(self, version: int) -> SpeakerT:
        """The weights of a version.

        Raises:
            ValueError: it was never published, or is forgotten.
        """
        if version not in self._held:
            known = f"{min(self._held)}..{max(self._held)}" if self._held else "none"
            raise ValueError(f"no engine holds version {version}; {len(self._held)} are held: {known}")
        return self._held[version]

    def __iter__(self) -> Iterator[tuple[int, SpeakerT]]:
        """Versions and their weights, oldest first."""
        return iter(self._held.items())

    def __len__(self) -> int:
        return len(self._held)
