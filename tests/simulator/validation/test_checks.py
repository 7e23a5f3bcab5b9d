"""Every check has a name of its own, and those of rules hold."""

import inspect

import pytest

from simulator.validation import consequences
from simulator.validation.ask import ask, names_of_checks
from simulator.validation.checks import CHECKS


def test_every_check_can_be_asked_for_by_a_name_that_is_its_own():
    names = names_of_checks()
    assert len(set(names)) == len(CHECKS)
    for name, check in zip(names, CHECKS, strict=True):
        assert ask([name.replace("_", "-")]).checks == [name]
        assert inspect.isgeneratorfunction(check)
        assert check.__doc__


@pytest.mark.parametrize("check", [consequences.first_batches, consequences.starvation])
def test_consequences_of_a_rule_come_out(check):
    rows = list(check())
    assert len(rows) == 2
    assert all(row.holds for row in rows), rows
