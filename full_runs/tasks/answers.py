r"""What is the answer in a response, and is it the right one?

*Choices*: the answer is the content of the last complete `\boxed{...}`; where there is none, what the
fallback says: the last number, the last line, or nothing. It is right if it equals the wanted one as text
(white space, dollar signs and a full stop at the end aside), or as a number: `0.5`, `1/2` and `\frac{1}{2}`
are one, `1,000` is 1000. Units and percent signs are part of the text.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final, Literal, TypeAlias

Fallback: TypeAlias = Literal["number", "line", "none"]

_MOST_CHARACTERS: Final = 100
"""A longer text is compared as text: arithmetic on it could take for ever."""
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_DECIMAL = rf"[-+]?(?:{_DIGITS}(?:\.\d*)?|\.\d+)"
_IN_TEXT = re.compile(rf"(?<![\w.]){_DECIMAL}(?:/\d+)?", re.ASCII)
_NUMBER = re.compile(rf"({_DECIMAL})(?:[eE]([-+]?\d{{1,3}}))?(?:\s*/\s*(\d+(?:\.\d+)?))?", re.ASCII)
_FRACTION = re.compile(r"([-+]?)\\[dt]?frac\{\s*([-+]?[\d.,]+)\s*\}\{\s*(\d[\d.,]*)\s*\}", re.ASCII)


def answer_of(response: str, fallback: Fallback) -> str | None:
    """The answer in a response; None if there is none."""
    if (boxed := last_boxed(response)) is not None:
        return boxed
    match fallback:
        case "number":
            found = _IN_TEXT.findall(response)
            return found[-1] if found else None
        case "line":
            lines = [line.strip() for line in response.splitlines() if line.strip()]
            return lines[-1] if lines else None
        case "none":
            return None


def last_boxed(response: str) -> str | None:
    r"""Content of the last `\boxed{...}` whose braces close."""
    # One pass, with the braces that are open: a response may hold thousands that never close.
    opened: list[int | None] = []
    found = (-1, -1)
    for brace in re.finditer(r"(\\boxed)?\{|\}", response):
        if brace[0] != "}":
            opened.append(brace.end() if brace[1] else None)
        elif opened and (start := opened.pop()) is not None:
            found = max(found, (start, brace.start()))
    return response[slice(*found)].strip() if found[0] >= 0 else None


def is_right(answer: str | None, wanted: str) -> bool:
    """Whether an answer equals the wanted one, as text or as a number."""
    if answer is None:
        return False
    ours, theirs = _plain(answer), _plain(wanted)
    if ours == theirs:
        return bool(ours)
    number = number_of(ours)
    return number is not None and number == number_of(theirs)


def number_of(text: str) -> Fraction | None:
    """The number that a text is, exactly; None if it is none."""
    if len(text) > _MOST_CHARACTERS:
        return None
    found = _NUMBER.fullmatch(_FRACTION.sub(r"\1\2/\3", text))
    if found is None:
        return None
    above, exponent, below = found.groups()
    number = Fraction(above.replace(",", "").rstrip(".") + (f"e{exponent}" if exponent else ""))
    if below is None:
        return number
    return number / Fraction(below) if Fraction(below) else None


def _plain(text: str) -> str:
    return " ".join(text.split()).strip("$ ").removesuffix(".").rstrip()
