"""Which words of a command line decide how the others are read, and which name was meant?

Standard library alone: a command line looks here before anything else is loaded.
"""

from __future__ import annotations

import difflib
import shutil
import textwrap
from collections.abc import Iterable, Sequence


def split(words: Iterable[str], *flags: str) -> list[str]:
    """`FLAG=VALUE` as two words, for these flags."""
    found = (word.split("=", 1) if word.split("=", 1)[0] in flags else [word] for word in words)
    return [part for parts in found for part in parts]


def last_value(words: Sequence[str], flag: str) -> str | None:
    """The value of a flag, as `--flag VALUE` or `--flag=VALUE`; of several the last, None if there is none.

    Dashes and underscores are one, as they are for all flags.
    """
    found = None
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == flag:
            found = value if equals else words[i + 1] if i + 1 < len(words) else found
    return found


def unknown(what: str, name: str, known: Sequence[str], *, help_of: str = "") -> str:
    """One line that says that a name is not there, and which come nearest, or else all that there are.

    Args:
        what: that it should name, as in "experiment".
        help_of: the command whose `--help` lists all names, if one does.
    """
    near = difflib.get_close_matches(name.lower(), known, n=3)
    if not near:
        return f"no {what} {name!r}; there are {', '.join(known)}"
    listed = f" {help_of} --help lists all" if help_of else ""
    return f"no {what} {name!r}; did you mean {' or '.join(near)}?{listed}"


def wrapped(text: str) -> str:
    """Lines broken for the terminal; what goes on is indented, or tyro would join it again."""
    width = min(110, max(20, shutil.get_terminal_size().columns))
    broken = textwrap.TextWrapper(width, break_on_hyphens=False, break_long_words=False)
    lines = []
    for line in text.split("\n"):
        broken.subsequent_indent = "    " if line.startswith(" ") else "  "
        lines.append(broken.fill(line))
    return "\n".join(lines)
