"""How is a formula shown without a script from elsewhere? As MathML, which browsers draw themselves."""

from __future__ import annotations

import html
import re
from typing import Final

from latex2mathml.converter import convert

_FORMULA: Final = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<kind>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
_SIZES: Final = (
    (re.compile(r"\\[bB]igg?l(?![a-zA-Z])"), r"\\left"),
    (re.compile(r"\\[bB]igg?r(?![a-zA-Z])"), r"\\right"),
)
"""Brackets of a stated size -> those that grow with what they hold: MathML has only these."""


def drawn(page: str) -> str:
    """HTML in which every formula that arithmatex marked is MathML.

    Raises:
        ValueError: a formula that is no LaTeX, with its text.
    """
    return _FORMULA.sub(lambda found: _mathml(html.unescape(found["latex"]), found["kind"] == "["), page)


def _mathml(latex: str, block: bool) -> str:
    latex = " ".join(latex.split())
    plain = latex
    for stated, growing in _SIZES:
        plain = stated.sub(growing, plain)
    drawn = convert(plain, display="block" if block else "inline")
    if "\\" in drawn:  # an unknown command passes as a name
        raise ValueError(
            f"formula {latex!r} cannot be drawn: it has a command that latex2mathml does not know"
        )
    # A reader of the source, or of a page read aloud, gets the LaTeX.
    labelled = drawn.replace("<math ", f'<math alttext="{html.escape(latex)}" ', 1)
    return f'<div class="formula">{labelled}</div>' if block else labelled
