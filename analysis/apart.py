"""Which runs are one arm? Those of one name whose settings differ in nothing but seeds.

Runs that were made one by one are named by their estimator or experiment alone. Two of them with other
settings are no two samples of one thing, so the settings that tell them apart become part of the name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Settings = Mapping[str, Any]
SEED: Final = "seed"
LENGTH: Final = "updates"
"""Of a run: named only where nothing else tells two of them apart."""


def arms_apart(arms: Sequence[str], configs: Sequence[Settings]) -> list[str]:
    """A name for each run, equal for two runs if and only if their arm and settings are.

    An arm of one kind keeps its name. Otherwise as few settings as tell its kinds apart are added, the one
    that separates most of them first.

    Args:
        arms: what each run is called.
        configs: settings of each, nested as they were written; whatever is called "seed" is left out.
    """
    flat = [dict(_flat(config)) for config in configs]
    names = list(arms)
    for arm in dict.fromkeys(arms):
        places = [place for place, own in enumerate(arms) if own == arm]
        keys = _telling([flat[place] for place in places])
        for place in places if keys else ():
            said = [f"{_short(key, keys)} {flat[place].get(key, 'none')}" for key in keys]
            names[place] = ", ".join([arm, *said])
    return names


def differences(configs: Sequence[Settings]) -> list[dict[str, str]]:
    """Of each, the settings in which not all are equal, seeds left out."""
    flat = [dict(_flat(config)) for config in configs]
    keys = _differing(flat)
    return [{key: own[key] for key in keys if key in own} for own in flat]


def _telling(kinds: Sequence[Mapping[str, str]]) -> list[str]:
    """The fewest settings, found greedily, that differ wherever any do."""
    left, chosen = _differing(kinds), list[str]()

    def parts(keys: Sequence[str]) -> int:
        return len({tuple(kind.get(key) for key in keys) for kind in kinds})

    for some in ([key for key in left if _last(key) != LENGTH], left):
        while parts(chosen) < parts(some):
            chosen.append(max(some, key=lambda key: parts([*chosen, key])))
    return chosen


def _differing(kinds: Sequence[Mapping[str, str]]) -> list[str]:
    keys = dict.fromkeys(key for kind in kinds for key in kind)
    return [key for key in keys if len({kind.get(key) for kind in kinds}) > 1]


def _flat(settings: Settings, above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        elif key != SEED:
            yield f"{above}{key}", value if isinstance(value, str) else json.dumps(value)


def _short(key: str, among: Sequence[str]) -> str:
    """Its last part, if that is no other's too."""
    alike = [other for other in among if _last(other) == _last(key)]
    return _last(key) if len(alike) == 1 else key


def _last(key: str) -> str:
    return key.rpartition(".")[2]
