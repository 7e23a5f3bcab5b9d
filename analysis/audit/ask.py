"""What does a user ask of an audit?

Annotations are evaluated eagerly here (no `__future__` import), because tyro makes the flags from them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from analysis.audit.examine import Audit, examine
from analysis.audit.finding import SEVERITIES
from analysis.audit.limits import Limits
from analysis.audit.load import load
from analysis.audit.show import show, to_json
from analysis.report.terminal import Terminal


@dataclass(frozen=True)
class Auditing:
    """What is wrong with the age and the ratios of the data in a training log?

    Logs may be verl's file logger and rollout files, TRL's trainer_state.json and completions, prime-rl's and
    SkyRL's metrics as CSV or JSON lines, AReaL's session traces, TensorBoard event files, run folders of this
    project, and plain CSV or JSON lines. Several files of one run are joined by update. Exit status: 0, 1
    with --fail-on, 2 bad input.
    """

    logs: tyro.conf.Positional[list[Path]]
    """Files, or folders of files, of one run."""
    alias: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """THEIR_NAME=OUR_NAME, for a name that is not known; may be repeated."""
    lag_bound: float | None = None
    """Configured bound of the lag, in the system's versions."""
    fail_on: Literal["never", "warning", "problem"] = "never"
    """Exit with status 1 if something as severe is found."""
    json: bool = False
    """One JSON object on stdout, and nothing else there."""

    @property
    def aliases(self) -> dict[str, str]:
        """Their name -> ours.

        Raises:
            ValueError: a word without an equals sign.
        """
        found = {}
        for word in self.alias:
            theirs, sign, ours = word.rpartition("=")
            if not sign or not theirs or not ours:
                raise ValueError(f"alias {word!r} is not THEIR_NAME=OUR_NAME")
            found[theirs] = ours
        return found

    def examined(self) -> Audit:
        """Read and examine.

        Raises:
            ValueError: no log was named, or it cannot be read.
        """
        if not self.logs:
            raise ValueError("needs a log")
        return examine(load(self.logs, self.aliases), Limits(lag_bound=self.lag_bound))

    def status(self, audit: Audit) -> int:
        """1 if what was found is as severe as was asked for."""
        worst = -1 if audit.worst is None else SEVERITIES.index(audit.worst)
        return int(self.fail_on != "never" and worst >= SEVERITIES.index(self.fail_on))


def answer(
    words: list[str],
    parse: Callable[..., Auditing],
    bad_input: Callable[[str], AbstractContextManager[None]],
) -> int:
    """Print an audit; returns the exit status.

    Args:
        words: after the subcommand.
        parse: makes the record of the words, or says in one line why it cannot.
        bad_input: turns what is wrong with a file into one line.
    """
    asked = parse(Auditing, words, command="audit")
    with bad_input("audit: "):
        audit = asked.examined()
    if asked.json:
        print(to_json(audit))
    else:
        show(audit, Terminal())
    return asked.status(audit)
