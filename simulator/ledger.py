"""Where is every rollout and every token, and does the sum still hold?

    generated = in_flight + waiting + queued + training + trained + dropped + validation,

in rollouts and in tokens, as integers. An accounting error is an exception, not a line in a log. A rollout
counts with its full length from the moment it starts: its length is decided when it starts, even though
its tokens come one by one, so no count has to change while it decodes. One that is aborted gives back the
tokens that it never made (`cut`), and what it had made is dropped: so a token is generated once, and dropped
once, however often its rollout begins again.

Every move is checked for what it takes from; the sums over all states when a batch is taken, at the end of a
run, and, if `checks_always`, at every move.

Reconciling what was generated with what was consumed and discarded is the quickest check of an
asynchronous run: https://github.com/marin-community/marin/pull/8936.
"""

from __future__ import annotations

from typing import Final, final

STATES: Final = ("in_flight", "waiting", "queued", "training", "trained", "dropped", "validation")


class LedgerError(Exception):
    """Rollouts or tokens appeared or vanished."""


@final
class Ledger:
    """Counts of rollouts and of tokens by state; `waiting` means for slower members of its group."""

    __slots__ = (
        "checks_always",
        "dropped_by_reason",
        "generated_rollouts",
        "generated_tokens",
        "rollouts",
        "tokens",
    )

    def __init__(self, *, checks_always: bool = False) -> None:
        self.checks_always = checks_always
        self.generated_rollouts = 0
        self.generated_tokens = 0
        self.rollouts = dict.fromkeys(STATES, 0)
        self.tokens = dict.fromkeys(STATES, 0)
        self.dropped_by_reason: dict[str, tuple[int, int]] = {}
        """Reason -> (rollouts, tokens)."""

    def start(self, tokens: int, state: str = "in_flight") -> None:
        """One rollout of `tokens` began to decode."""
        self.generated_rollouts += 1
        self.generated_tokens += tokens
        self.rollouts[state] += 1
        self.tokens[state] += tokens
        if self.checks_always:
            self.check()

    def move(self, source: str, target: str, rollouts: int, tokens: int) -> None:
        """`rollouts` with `tokens` in all left one state for another.

        Errors:
            LedgerError: the source did not hold as many, or the sum no longer holds.
        """
        count, size = self.rollouts, self.tokens
        left, left_tokens = count[source] - rollouts, size[source] - tokens
        if left < 0 or left_tokens < 0:
            raise LedgerError(f"{source} gave away more than it held: {rollouts}, {tokens} of {self}")
        count[source] = left
        size[source] = left_tokens
        count[target] += rollouts
        size[target] += tokens
        if self.checks_always:
            self.check()

    def cut(self, state: str, tokens: int) -> None:
        """A rollout was aborted: its last `tokens` will never be made."""
        self.generated_tokens -= tokens
        self.tokens[state] -= tokens
        if tokens < 0 or self.tokens[state] < 0:
            raise LedgerError(f"{state} gave back {tokens} tokens: {self}")
        self.check()

    def drop(self, source: str, reason: str, rollouts: int, tokens: int) -> None:
        """`rollouts` with `tokens` in all were thrown away because of `reason`."""
        before_rollouts, before_tokens = self.dropped_by_reason.get(reason, (0, 0))
        self.dropped_by_reason[reason] = (before_rollouts + rollouts, before_tokens + tokens)
        self.move(source, "dropped", rollouts, tokens)

    def check(self) -> None:
        """Raise LedgerError, with every number, unless the sums hold exactly."""
        if (
            sum(self.rollouts.values()) != self.generated_rollouts
            or sum(self.tokens.values()) != self.generated_tokens
        ):
            raise LedgerError(f"generated is not the sum of the states: {self}")

    def __repr__(self) -> str:
        return (
            f"Ledger(generated {self.generated_rollouts} rollouts, {self.generated_tokens} tokens;"
            f" rollouts {self.rollouts}; tokens {self.tokens}; dropped {self.dropped_by_reason})"
        )
