"""What becomes of a group that lost a member, or whose time is up?

Asked when a member's environment fails, when a member ends in a group that has lost one, and when a group's
deadline passes before it is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

Verdict: TypeAlias = Literal["wait", "retry", "drop", "ship"]
"""Wait for who is left; try the failed members again; throw everyone away; or train on who is valid, copies
of them in the places of the others. Dropped or shipped, what still runs is stopped."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """A group that is not complete."""

    group_size: int
    valid: int
    """Finished, with a result."""
    failed: int
    """Without a result, and not tried again so far."""
    overdue: bool = False
    """Its deadline has passed."""


Incomplete: TypeAlias = Callable[[Members], Verdict]


def drop_group(members: Members) -> Verdict:  # noqa: ARG001 - a rule takes the members, this one ignores them
    """All or none: siblings are compared with as many as were asked for, and finished ones are wasted.

    Of groups of G, (1 - p)^G survive if each member fails with probability p: .663 of groups of 8 at 5 %.
    """
    return "drop"


def retry_member(members: Members) -> Verdict:
    """The failed member alone tries again, and its siblings wait; too late, the group is dropped."""
    return "drop" if members.overdue else "retry"


def pad_if_most_are_valid(members: Members) -> Verdict:
    """A group of which more than half are valid is filled up with copies of them, any other is dropped.

    *Choice*: decided when the last member has ended or failed, or the deadline has passed; a group that can
    have no majority any more is dropped at once.

    References:
        GLM-5, 2026. https://arxiv.org/abs/2602.15763
    """
    if 2 * (members.group_size - members.failed) <= members.group_size:
        return "drop"
    if members.valid + members.failed < members.group_size and not members.overdue:
        return "wait"
    return "ship" if 2 * members.valid > members.group_size else "drop"
