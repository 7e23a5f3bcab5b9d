"""A run was killed: which facts of its journal still hold, and what is asked again?

Weights are those of the last checkpoint, so what was trained after it counts for nothing. Tokens are kept
nowhere: what was under way, waited, stood in the queue or was trained too late is accounted as dropped
("restart"), and its prompt is asked again. So every prompt is trained once or accounted as dropped, however
often a run is killed. Pure: facts in, decisions out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, final

from full_runs.controller.records import Place

Row = Mapping[str, Any]
RESTART: Final = "restart"
"""Reason of what is lost with the process that held it."""
_TIMES: Final = ("submitted_s", "finished_s", "consumed_s", "end_s", "train_end_s", "published_s")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What earlier processes of a run leave to the next one; nothing, for the first."""

    version: int = 0
    """Updates that count: those of the last checkpoint."""
    newest_version: int = 0
    """Updates that were done, those that count for nothing included."""
    clock_s: float = 0.0
    """When the last fact was written."""
    over: tuple[Row, ...] = ()
    """Rows of rollouts that were trained or dropped, and stay so."""
    lost: tuple[Row, ...] = ()
    """Rows of all others."""
    again: tuple[Place, ...] = ()
    """To be asked again, in the order of their groups."""
    groups: int = 0
    """That were started: the number of the next one."""
    rollouts: int = 0
    """That were started: the number of the next one."""

    def lost_rows(self) -> list[dict[str, Any]]:
        """What the journal is told of each that is lost: the trainer had `newest_version` when it was."""
        fate = {
            "status": "dropped",
            "reason": RESTART,
            "consumed_s": self.clock_s,
            "consumed_version": self.newest_version,
        }
        return [{**row, **fate} for row in self.lost]


def rollout_rows(facts: Iterable[Row]) -> dict[int, dict[str, Any]]:
    """Of each rollout the last that is known of it, in the order in which they were first named."""
    rows: dict[int, dict[str, Any]] = {}
    for fact in facts:
        if fact["kind"] == "rollout":
            own = rows.setdefault(fact["rollout_id"], {})
            own.update((name, value) for name, value in fact.items() if name != "kind")
    return rows


def past_of(facts: Iterable[Row], *, group_size: int) -> Past:
    """What the journal of a run that ended early leaves to the next process.

    Args:
        facts: the journal's lines, in order.
        group_size: rollouts that answer one prompt.
    """
    facts = list(facts)
    rows = rollout_rows(facts)
    version, newest = _versions(facts)
    over = [row for row in rows.values() if _is_over(row, version)]
    ids = {row["rollout_id"] for row in over}
    return Past(
        version=version,
        newest_version=newest,
        clock_s=max((fact.get(name) or 0.0 for fact in facts for name in _TIMES), default=0.0),
        over=tuple(over),
        lost=tuple(row for number, row in rows.items() if number not in ids),
        again=tuple(_asked_again(rows.values(), version, group_size)),
        groups=max((row["group_id"] for row in rows.values()), default=-1) + 1,
        rollouts=max(rows, default=-1) + 1,
    )


def places_to_ask(past: Past, *, group_size: int, distinct_prompts: int | None) -> Iterator[Place]:
    """What earlier processes of a run leave first, then groups without end.

    Args:
        distinct_prompts: so many prompts come again and again; None: none ever comes back.
    """
    yield from past.again
    for group_id in count(past.groups):
        prompt_id = group_id if distinct_prompts is None else group_id % distinct_prompts
        for member in range(group_size):
            yield Place(prompt_id, group_id, member)


def _versions(facts: Sequence[Row]) -> tuple[int, int]:
    """Updates behind the last checkpoint, and behind the trainer at the end."""
    version = newest = 0
    for fact in facts:
        match fact["kind"]:
            case "update":
                newest = fact["version"]
            case "checkpoint":
                version = fact["version"]
            case "resume":
                version = newest = fact["version"]
    return version, max(version, newest)


def _is_over(row: Row, version: int) -> bool:
    return row["status"] == "dropped" or _is_trained(row, version)


def _is_trained(row: Row, version: int) -> bool:
    """In an update that counts; the batch of update v met weights of version v - 1."""
    return bool(row["status"] == "trained" and row["consumed_version"] < version)


def _asked_again(rows: Iterable[Row], version: int, group_size: int) -> list[Place]:
    """Whole groups: of those that are neither trained nor given up, every member."""
    groups: dict[int, dict[int, Row]] = {}
    for row in rows:
        groups.setdefault(row["group_id"], {})[row["member"]] = row  # a member's last attempt
    again: list[Place] = []
    for group_id, members in sorted(groups.items()):
        if any(_is_trained(row, version) or _is_given_up(row) for row in members.values()):
            continue
        prompt_id = next(iter(members.values()))["prompt_id"]
        again += [Place(prompt_id, group_id, member) for member in range(group_size)]
    return again


def _is_given_up(row: Row) -> bool:
    """It was dropped for a reason of its own: *choice*, a group that has lost a member is not asked again."""
    return bool(row["status"] == "dropped" and row.get("reason") != RESTART)
