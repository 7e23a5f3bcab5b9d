"""What do pages take from the code and from other documents, so that it is said once?

A page asks with a line `<!-- include: NAME -->`.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from docs.tools import accuracy
from docs.tools.reference import ROOT

_ASKED: Final = re.compile(r"^<!-- include: (?P<name>[\w.-]+) -->$", re.MULTILINE)
_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<target>[^)\s]+)\)")
PAGES: Final[Mapping[str, str]] = {
    "README.md": "index.md",
    "DESIGN.md": "design.md",
    "LOG.md": "log.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "algorithms/README.md": "estimators.md",
}
"""Documents of the repository that have a page here."""


def filled(page: str) -> str:
    """The page with what it asks for.

    Raises:
        KeyError: nothing has the name that it asks for.
    """
    return _ASKED.sub(lambda found: INCLUDES[found["name"]](), page)


def estimators() -> str:
    """`algorithms/README.md` without its title; a file's name leads to its place in the reference."""

    def linked(found: re.Match[str]) -> str:
        target = found["target"].removesuffix(".py").replace("/", ".")
        is_function = found["text"].isidentifier() and found["target"].endswith(".py")
        name = f"{target}.{found['text']}" if is_function else target
        return f"[{found['text']}][algorithms.{name}]"

    written = (ROOT / "algorithms" / "README.md").read_text(encoding="utf-8")
    body = _LINK.sub(linked, written.split("\n", 1)[1])
    # Here rows are many and columns wide: no comment stands before the table.
    return re.sub(r"^<!-- (?!include).*-->\n", "\n", body, flags=re.MULTILINE)


def document(name: str) -> Callable[[], str]:
    """A document of the repository; what it links to is another page here, or only named."""

    def linked(found: re.Match[str]) -> str:
        page = PAGES.get(found["target"])
        return f"[{found['text']}]({page})" if page else found["text"]

    def read() -> str:
        return _LINK.sub(linked, (ROOT / name).read_text(encoding="utf-8"))

    return read


def schemas() -> str:
    """Every table of the event log with its columns, from the schemas and the comments beside them."""
    from simulator.eventlog import schemas as written

    said = comments(Path(written.__file__))
    tables = {**written.SCHEMAS, "rollouts, where they have environments": written.EPISODES}
    parts = []
    for table, schema in tables.items():
        rows = [f"| `{field.name}` | {field.type} | {said.get(field.name, '')} |" for field in schema]
        title = f"### {table}" if " " in table else f"### {table}.parquet"
        parts.append("\n".join([title, "", "| column | type | what it is |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def comments(file: Path) -> dict[str, str]:
    """String that is a line's first word -> the comment beside it, or on the line above."""
    found: dict[str, str] = {}
    above, name = "", None
    for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.STRING and token.line.lstrip().startswith(token.string):
            name = token.string.strip('"')
            if above:
                found[name] = above
            above = ""
        elif token.type == tokenize.COMMENT:
            said = token.string.lstrip("# ").replace("|", "\\|")
            if token.line.lstrip().startswith("#"):
                above = said
            elif name is not None:
                found[name] = f"{found[name]}; {said}" if name in found else said
    return found


INCLUDES: Final[Mapping[str, Callable[[], Any]]] = {
    "estimators": estimators,
    "schemas": schemas,
    "accuracy": accuracy.page,
    "design": document("DESIGN.md"),
    "log": document("LOG.md"),
    "changelog": document("CHANGELOG.md"),
    "contributing": document("CONTRIBUTING.md"),
}
