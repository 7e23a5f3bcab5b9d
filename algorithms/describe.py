"""Which pieces is each composition made of? The table in this folder's README, written from the catalogue.

python -m algorithms.describe      # writes it anew
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from algorithms import aggregate
from algorithms.aggregate import Aggregate
from algorithms.catalogue import COMPOSITIONS
from algorithms.estimator import Estimator
from algorithms.piece import called

README: Final = Path(__file__).with_name("README.md")
START, END = "<!-- compositions: written by python -m algorithms.describe -->", "<!-- end -->"
_ADDRESS = re.compile(r"https?://[^\s]+[^\s.,]")


def pieces(estimator: Estimator) -> dict[str, str]:
    """The four pieces by name, and under `more` whatever else the estimator carries."""
    extra = [
        ("weight", estimator.correction),
        ("critic", estimator.critic and f"K = {estimator.critic.updates_per_policy_update}"),
        ("counted", estimator.counted),
        ("from the whole batch", estimator.adapt),
        *(("plus", penalty) for penalty in estimator.regularisers),
    ]
    return {
        "advantage": called(estimator.advantage),
        "ratio": called(estimator.log_ratio),
        "trust region": called(estimator.trust),
        "aggregate": _aggregate_name(estimator.aggregate),
        "more": "; ".join(f"{what}: {called(value)}" for what, value in extra if value is not None),
    }


def table() -> str:
    """Markdown, a row a composition, in the order of the catalogue."""
    rows = [_row(make) for make in COMPOSITIONS]
    head = ["composition", "advantage", "ratio", "trust region", "aggregate", "more", "source"]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(readme: Path = README) -> None:
    """Replace the table between the two marks."""
    before, _, rest = readme.read_text().partition(START)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{START}\n{table()}\n{END}{after}")


def _row(make: Callable[[], Estimator]) -> list[str]:
    found = pieces(make())
    name = f"[{make.__name__}]({make.__module__.rpartition('.')[2]}.py)"
    return [name, *(f"`{v}`" if k != "more" and v else v for k, v in found.items()), _source(make)]


def _source(make: Callable[[], Estimator]) -> str:
    """The first address that the docstring names, its own or its module's."""
    texts = (inspect.getdoc(make), inspect.getdoc(inspect.getmodule(make)))
    return next((found.group() for text in texts if (found := _ADDRESS.search(text or ""))), "")


def _aggregate_name(used: Aggregate) -> str:
    names = (name for name, value in vars(aggregate).items() if value is used)
    return next(names, called(used.reduce))


if __name__ == "__main__":
    write()
