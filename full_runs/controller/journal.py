"""What happened, kept as it happens, and the event log made of it.

Every fact is one line of `journal.jsonl`, flushed at once, so a run that is killed loses nothing that it had
said, and goes on from there (`full_runs.controller.resume`). `event_log` makes the four tables of
`simulator.eventlog` out of the lines, finished run or not.
"""

from __future__ import annotations

import bisect
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, final

from full_runs.controller.records import Asked, Made
from full_runs.controller.resume import Past, past_of, rollout_rows
from full_runs.controller.stalls import Spell, without_stalls
from simulator.eventlog import EventLog, Recorder


@final
class Journal:
    """Append-only; times are seconds since `begin`, or since it was opened.

    Args:
        path: of the file.
        mode: "new" refuses a file that is there, "append" goes on after its last whole line.
    """

    def __init__(self, path: Path, *, mode: Literal["new", "append"] = "new") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        if mode == "append":
            _cut_to_whole_lines(path)
        self._file = path.open("x" if mode == "new" else "a", encoding="utf-8")
        self._began_s = time.monotonic()

    def begin(self, at_s: float = 0.0) -> None:
        """The run's clock shows `at_s` now: starting engines, or not running at all, is no time of its."""
        self._began_s = time.monotonic() - at_s

    def clock(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began_s

    def write(self, kind: str, **columns: Any) -> None:
        self.write_all(kind, [columns])

    def write_all(self, kind: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Facts of one kind, in one piece: the system is asked once."""
        if text := "".join(json.dumps({"kind": kind, **row}) + "\n" for row in rows):
            self._file.write(text)
            self._file.flush()

    def interval(self, resource: str, state: str, cause: str, start_s: float, end_s: float) -> None:
        if end_s > start_s:
            self.write("interval", resource=resource, state=state, cause=cause, start_s=start_s, end_s=end_s)

    def sync(self) -> None:
        """What was written is on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _cut_to_whole_lines(path: Path) -> None:
    with path.open("rb+") as file:
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)


def rollout_row(
    asked: Asked, made: Made | None, *, status: str, reason: str | None = None, **more: Any
) -> dict[str, Any]:
    """A row of `rollouts`; what is not known yet is left out.

    Args:
        more: `group_ready_s`, `consumed_s`, `consumed_version`.
    """
    row: dict[str, Any] = {
        "rollout_id": asked.rollout_id,
        "prompt_id": asked.prompt_id,
        "group_id": asked.group_id,
        "member": asked.member,
        "submitted_s": asked.submitted_s,
        "status": status,
        "reason": reason,
        **more,
    }
    if made is None:
        return row
    rollout = made.played.rollout
    chosen = [v for v, m in zip(rollout.policy_versions, rollout.action_mask, strict=True) if m]
    return row | {
        "engine": made.engine,
        "started_s": made.started_s,
        "finished_s": made.finished_s,
        "enqueued_s": more.get("group_ready_s"),
        "first_version": chosen[0],
        "last_version": chosen[-1],
        "oldest_version": min(chosen),
        "action_tokens": made.tokens,
        "observation_tokens": len(rollout.token_ids) - made.tokens,
        "turns": made.played.turns,
        "reward": sum(rollout.token_rewards),
    }


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The facts of a journal; a last line that was cut off is left out.

    Raises:
        ValueError: another line is broken; its number is named.
    """
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith("\n"):
                try:
                    yield json.loads(line)
                except ValueError:
                    raise ValueError(f"{path}: line {number} is not JSON") from None


def failures(facts: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """What went wrong how often, by kind."""
    return Counter(fact["what"] for fact in facts if fact["kind"] == "failure")


def opened(path: Path, *, group_size: int) -> tuple[Past, Journal]:
    """A new journal; or what an older one leaves, and that journal with what is lost written down."""
    if not path.exists():
        return Past(), Journal(path)
    left, journal = past_of(lines(path), group_size=group_size), Journal(path, mode="append")
    for row in left.lost_rows():
        journal.write("rollout", **row)
    journal.write("resume", version=left.version)
    return left, journal


def event_log(facts: Iterable[Mapping[str, Any]]) -> EventLog:
    """The four tables. Of a rollout the last row counts, in the order in which rollouts were first named.

    Where a run went on from a checkpoint, updates and pushes after it count for nothing.
    """
    facts = list(facts)
    recorder, pushed, updates = Recorder(), dict[int, float](), dict[int, dict[str, Any]]()
    intervals: list[dict[str, Any]] = []
    stalls: list[Spell] = []
    for fact in facts:
        row = {name: value for name, value in fact.items() if name != "kind"}
        match fact["kind"]:
            case "segment":
                recorder.add_segment(**row)
            case "interval":
                intervals.append(row)
            case "update":
                updates[row["version"]] = row
            case "measured":
                known = updates[row["version"]]
                updates[row["version"]] = known | {"metrics": known["metrics"] | row["metrics"]}
            case "push":
                pushed[row["version"]] = row["published_s"]
                stalls.append((row["published_s"] - row["stood_still_s"], row["published_s"]))
            case "resume":
                for after in (updates, pushed):
                    for version in [version for version in after if version > row["version"]]:
                        del after[version]
    for row in without_stalls(intervals, stalls):
        recorder.add_interval(**row)
    for row in rollout_rows(facts).values():
        recorder.add_rollout(**row)
    published = sorted(pushed)
    for row in updates.values():
        metrics = {name: float("nan") if v is None else v for name, v in row.pop("metrics").items()}
        push = bisect.bisect_left(published, row["version"])
        published_s = pushed[published[push]] if push < len(published) else None
        recorder.add_update(metrics, **row, published_s=published_s)
    return recorder.log()
