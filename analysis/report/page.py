"""The page that a report stands on: one self-contained HTML file, light and dark, wide and narrow.

Nothing is fetched: styles are in the page, figures are inline SVG. Every text goes through `html.escape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Final

import pandas as pd

from analysis.pictures.picture import Picture
from analysis.report.style import STYLE

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


def section(heading: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(heading)}</h2>\n" + "\n".join(parts) + "\n</section>"


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{escape(kind)}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


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
    return (
        f'<div class="table"><table{kind}><thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


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
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
    return (
        f"<figure><h3>{escape(picture.title)}</h3>\n"
        f'<div role="img" aria-label="{escape(picture.alt)}">{picture.svg}</div>\n{caption}</figure>'
    )


def definitions(terms: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in terms) + "</dl>"
