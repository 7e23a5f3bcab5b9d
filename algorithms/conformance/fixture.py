"""The laws inside a pytest suite.

Call `assert_conforms(my_estimator())` in a test, or make it a fixture in a conftest.py::

    from algorithms.conformance.fixture import conforms_fixture

    conforms = conforms_fixture()

    def test_mine_obeys_the_laws(conforms):
        conforms(my_estimator())
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from algorithms.conformance.check import check
from algorithms.conformance.laws import LAWS, Law
from algorithms.conformance.subject import Subject
from algorithms.conformance.words import verdict_text


def assert_conforms(
    estimator: Subject | Callable[..., Tensor],
    *,
    laws: Sequence[Law] = LAWS,
    examples: int = 100,
    shortest: int = 1,
    longest: int = 4,
) -> None:
    """Fail unless every law holds; arguments as `check.check`.

    Raises:
        AssertionError: names each law that failed, with its smallest counterexample.
        ValueError: as `check.check`.
    """
    verdicts = check(estimator, laws=laws, examples=examples, shortest=shortest, longest=longest)
    failed = [verdict for verdict in verdicts if not verdict.holds]
    if failed:
        raise AssertionError("\n" + "\n".join(verdict_text(verdict) for verdict in failed))


def conforms_fixture(name: str | None = None) -> Any:
    """A pytest fixture that hands out `assert_conforms`; assign it in a conftest.py."""
    import pytest

    @pytest.fixture(name=name)
    def conforms() -> Callable[..., None]:
        return assert_conforms

    return conforms
