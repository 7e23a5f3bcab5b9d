"""What becomes of a group that lost members? By hand."""

import pytest

from simulator.rules.incomplete import Members, drop_group, pad_if_most_are_valid, retry_member


def group(valid, failed, *, of=8, overdue=False):
    return Members(group_size=of, valid=valid, failed=failed, overdue=overdue)


def test_all_or_none():
    assert (
        drop_group(group(0, 1)) == drop_group(group(7, 1)) == drop_group(group(7, 0, overdue=True)) == "drop"
    )


def test_a_member_tries_again_until_it_is_too_late():
    assert retry_member(group(3, 1)) == "retry"
    assert retry_member(group(7, 0, overdue=True)) == "drop"


@pytest.mark.parametrize(
    ("valid", "failed", "overdue", "verdict"),
    [
        (0, 1, False, "wait"),
        (4, 3, False, "wait"),  # the eighth decides
        (5, 3, False, "ship"),
        (0, 4, False, "drop"),  # no majority can come of it
        (4, 4, False, "drop"),  # half is not more than half
        (5, 0, True, "ship"),
        (4, 0, True, "drop"),
        (5, 1, True, "ship"),
    ],
)
def test_more_than_half_must_be_valid(valid, failed, overdue, verdict):
    assert pad_if_most_are_valid(group(valid, failed, overdue=overdue)) == verdict


def test_a_group_of_one_is_never_padded():
    assert pad_if_most_are_valid(group(0, 1, of=1)) == "drop"
