"""How does a reader get the numbers behind a table or a figure? As CSV, in a link of the page itself."""

from __future__ import annotations

from html import escape
from typing import Final
from urllib.parse import quote

import pandas as pd

MOST_ROWS: Final = 4000
"""A longer table is not put into the page, only into the files beside it."""
_PLAIN: Final = ",;:()[]*!@$/?= "
"""What stands in a link as it is: with these, numbers take hardly more room than in the file."""


def as_csv(table: pd.DataFrame) -> str:
    """Comma-separated, nine digits a number, an index only if it has a name; empty where nothing is known."""
    named = table.reset_index() if any(table.index.names) else table
    return str(named.to_csv(index=False, float_format="%.9g", lineterminator="\n"))


def link(table: pd.DataFrame, name: str, *, words: str = "data") -> str:
    """An HTML link that saves the table, without a network: the file is the address itself.

    Args:
        name: of the file, without an ending.
        words: what the link is called.
    """
    rows = "1 row" if len(table) == 1 else f"{len(table):,} rows"
    if len(table) > MOST_ROWS:
        return f"{words}: {rows}, written by --figures"
    address = escape("data:text/csv;charset=utf-8," + quote(as_csv(table), safe=_PLAIN))
    return f'<a download="{escape(name)}.csv" href="{address}">{escape(words)} ({rows})</a>'
