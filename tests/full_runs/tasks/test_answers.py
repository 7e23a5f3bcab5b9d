"""What counts as the answer of a response, and as the right one."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from full_runs.tasks.answers import Fallback, answer_of, is_right, number_of


@pytest.mark.parametrize(
    ("response", "fallback", "answer"),
    [
        (r"so \boxed{1} no, \boxed{\frac{1}{2}} it is 7", "number", r"\frac{1}{2}"),
        (r"\boxed{3} and then \boxed{4", "number", "3"),
        (r"\boxed{", "none", None),
        ("first 3, then 1,234.5 apples", "number", "1,234.5"),
        ("x = -7.", "number", "-7."),
        ("2, 3/4", "number", "3/4"),
        ("v2 is no number", "number", None),
        ("one\n\n  two  \n", "line", "two"),
        ("12", "none", None),
        ("", "line", None),
    ],
)
def test_the_answer_is_what_is_boxed_last_or_what_the_fallback_says(
    response: str, fallback: Fallback, answer: str | None
) -> None:
    assert answer_of(response, fallback) == answer


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("0.50", "1/2"), (r"\frac{1}{2}", "0.5"), (r"-\dfrac{3}{4}", "-0.75"), ("$1,000$", "1000"),
        ("1e3", "1000"), ("+5", "5."), ("x  + 1", "x + 1"), ("Paris.", "Paris"), (".5", "0.5"),
    ],
)  # fmt: skip
def test_equal_as_text_or_number(answer: str, wanted: str) -> None:
    assert is_right(answer, wanted)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("0.3333", "1/3"), ("5 km", "5"), ("paris", "Paris"), (None, "None"), ("", ""), ("1/0", "1/0.0"),
        ("1,00", "100"), ("1e999999999", "1"), ("9" * 5000, "9" * 5001), ("nan", "0"), ("12", "21"),
    ],
)  # fmt: skip
def test_different(answer: str | None, wanted: str) -> None:
    assert not is_right(answer, wanted)


@given(st.fractions(max_denominator=10**6))
def test_every_way_to_write_a_fraction_is_that_fraction(value: Fraction) -> None:
    above, below = value.numerator, value.denominator
    assert number_of(f"{above}/{below}") == number_of(rf"\frac{{{above}}}{{{below}}}") == value
    assert number_of(f"{above:,}") == above


def test_braces_that_never_close_cost_nothing() -> None:
    assert answer_of(r"\boxed{" * 100_000, "none") is None
    assert answer_of(r"\boxed{a}" + r"\boxed{" * 100_000, "none") == "a"


@given(st.text(max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    for fallback in ("number", "line", "none"):
        is_right(answer_of(text, fallback), text)
