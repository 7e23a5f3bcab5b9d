"""How do docstrings with formulas in reStructuredText become Markdown?"""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_INLINE: Final = re.compile(r":math:`([^`]*)`")
_BLOCK: Final = re.compile(
    r"""^(?P<indent>[ \t]*)\.\.\ math::[ \t]*(?P<first>[^\n]*)\n?
    (?P<rest>(?:
        (?P=indent)[ \t]+\S[^\n]*\n?            # a line that stands deeper
        | [ \t]*\n(?=(?P=indent)[ \t]+\S)      # an empty one before such a line
    )*)""",
    re.MULTILINE | re.VERBOSE,
)


def in_markdown(docstring: str) -> str:
    r"""``:math:`x``` as `$x$`, `.. math:: x` as a block between `$$`."""

    def block(found: re.Match[str]) -> str:
        indent = found["indent"]
        latex = " ".join([found["first"], *found["rest"].split("\n")])
        return f"\n{indent}$$\n{indent}{' '.join(latex.split())}\n{indent}$$\n\n"

    return _INLINE.sub(r"$\1$", _BLOCK.sub(block, docstring))


class Formulas(griffe.Extension):
    """What mkdocstrings calls for every object that it has read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = in_markdown(obj.docstring.value)
