"""The page that a report stands on: one self-contained HTML file, light and dark, wide and narrow.

Nothing is fetched: styles are in the page, figures are inline SVG. Every text goes through `html.escape`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from html import escape
from string import Template
from typing import Final

import pandas as pd

from analysis.pictures.picture import Picture
from analysis.report.data import link
from analysis.report.style import STYLE

MADE: Final = "How it was made"
"""Heading of the section that every table and figure points to."""

MOST_ROWS: Final = 20
"""Rows of a table up to which all stand on the page; more are in a box that scrolls."""

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
$body
</main>
</body>
</html>
""")


def page(name: str, parts: Sequence[str]) -> str:
    """The whole file; `parts` are HTML already."""
    return _PAGE.substitute(title=escape(name), style=STYLE, body="\n".join(parts))


def title(text: str) -> str:
    return f"<h1>{escape(text)}</h1>"


def _anchor(heading: str) -> str:
    """No drawing begins its ids so."""
    return "part-" + re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


_TO_COMMAND: Final = f'<a href="#{_anchor(MADE)}">command</a>'


def section(heading: str, *parts: str) -> str:
    body = "\n".join(parts)
    return f'<section id="{_anchor(heading)}">\n<h2>{escape(heading)}</h2>\n{body}\n</section>'


def contents(headings: Sequence[str]) -> str:
    """Links to the sections of a page."""
    links = (f'<a href="#{_anchor(heading)}">{escape(heading)}</a>' for heading in headings)
    return f'<nav aria-label="Contents">{" ".join(links)}</nav>'


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{escape(kind)}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def command(text: str) -> str:
    """What was typed to make what the page shows."""
    return f'<p class="soft">Made by <code>{escape(text)}</code></p>'


def source(**tables: pd.DataFrame) -> str:
    """Under a table: the numbers it was made of, by name, and the way to the command that made it."""
    words = ["data"] if len(tables) == 1 else [name.replace("_", " ") for name in tables]
    links = [
        link(table, name.replace("_", "-"), words=called)
        for (name, table), called in zip(tables.items(), words, strict=True)
    ]
    return f'<p class="source">{" · ".join([*links, _TO_COMMAND])}</p>'


def data_table(table: pd.DataFrame, *, corner: str, words: bool = False) -> str:
    """A table whose rows become cards on a narrow screen; `verdict` cells carry their colour.

    Args:
        table: strings; its index heads the rows.
        corner: heading of the index.
        words: cells are text rather than numbers.
    """
    heads = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in [corner, *table.columns])
    rows = "\n".join(
        f'<tr><th scope="row">{escape(str(index))}</th>'
        + "".join(_cell(str(name), str(value)) for name, value in row.items())
        + "</tr>"
        for index, row in table.iterrows()
    )
    kind = ' class="words"' if words else ""
    # A long one is looked through in its own box, which the keyboard can reach too.
    box = ' class="table"'
    if len(table) > MOST_ROWS:
        label = f"{len(table)} rows by {escape(corner)}"
        box = f' class="table long" tabindex="0" role="region" aria-label="{label}"'
    elif len(table.columns) == 1:
        box = ' class="table slim"'
    return f"<div{box}><table{kind}><thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"


def _cell(name: str, value: str) -> str:
    kind = f' class="{value.replace(" ", "-")}"' if name == "verdict" else ""
    # An element of its own: in a card, the label and the whole value stand side by side.
    return (
        f'<td data-label="{escape(name)}">'
        + (f"<span{kind}>{escape(value)}</span>" if value else "")
        + "</td>"
    )


def pictures(shown: Sequence[Picture]) -> str:
    return '<div class="figures">\n' + "\n".join(_figure(picture) for picture in shown) + "\n</div>"


def _figure(picture: Picture) -> str:
    data = [] if picture.table is None else [link(picture.table, picture.file_name)]
    found = f'<span class="source">{" · ".join([*data, _TO_COMMAND])}</span>'
    return (
        f"<figure><h3>{escape(picture.title)}</h3>\n"
        f'<div role="img" aria-label="{escape(picture.alt)}">{picture.drawing.svg()}</div>\n'
        f"<figcaption>{escape(picture.caption)} {found}</figcaption></figure>"
    )


def definitions(terms: Sequence[tuple[str, str]], *, commands: Collection[str] = ()) -> str:
    """Terms and what they mean; those in `commands` mean something to be typed."""
    rows = (
        f"<dt>{escape(term)}</dt><dd>"
        + (f"<code>{escape(meaning)}</code>" if term in commands else escape(meaning))
        + "</dd>"
        for term, meaning in terms
    )
    return f"<dl>{''.join(rows)}</dl>"
