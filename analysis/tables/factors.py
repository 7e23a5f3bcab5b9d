"""What came out at each setting? Outcomes of one or two factors, averaged over the seeds of each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.statistics.intervals import bootstrap_interval, wilson


class NothingToShowError(ValueError):
    """These runs have nothing for a figure that was registered; others of the same study might."""


def chosen(outcomes: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """Runs whose factors (or arm) have these values; a list names several values.

    Raises:
        NothingToShowError: nothing is left.
        ValueError: a name that is no column.
    """
    kept = outcomes
    for name, value in where.items():
        column_of(outcomes, name)
        kept = kept.loc[kept[name].isin(value if isinstance(value, (list, tuple)) else [value])]
    if kept.empty:
        raise NothingToShowError(f"no run is where {dict(where)}")
    return kept.reset_index(drop=True)


def column_of(table: pd.DataFrame, name: str) -> str:
    """The name, if it is a column.

    Raises:
        ValueError: it is not; with the names that are.
    """
    if name not in table.columns:
        raise ValueError(f"outcomes carry no {name!r}; they have {', '.join(map(str, table.columns))}")
    return name


def by_factor(
    outcomes: pd.DataFrame, *, factor: str, line: str, metric: str, rng: np.random.Generator
) -> pd.DataFrame:
    """One row a line and level: columns line, level, mean, low, high, n.

    The interval is a bootstrap over the runs of the level, or Wilson's for what is true or false of a run.
    Runs without a value are not counted in n.
    """
    rows: list[dict[str, object]] = []
    for column in (factor, line, metric):
        column_of(outcomes, column)
    events = outcomes[metric].dtype == bool
    for (name, level), own in outcomes.groupby([line, factor], sort=False):
        values = own[metric].to_numpy(dtype=float)
        values = values[np.isfinite(values)]
        if len(values) == 0:
            continue
        found = wilson(int(values.sum()), len(values)) if events else bootstrap_interval(values, rng=rng)
        rows.append(
            {
                "line": str(name),
                "level": level,
                "mean": found.estimate,
                "low": found.low,
                "high": found.high,
                "n": found.n,
            }
        )
    table = pd.DataFrame(rows, columns=["line", "level", "mean", "low", "high", "n"])
    order = {str(name): i for i, name in enumerate(dict.fromkeys(outcomes[line]))}
    return table.sort_values(
        ["line", "level"], key=lambda column: column.map(order) if column.name == "line" else column
    ).reset_index(drop=True)


def by_two(outcomes: pd.DataFrame, *, x: str, y: str, metric: str) -> pd.DataFrame:
    """Mean of a metric at each pair of levels: y as index, x as columns; NaN where no run was."""
    for name in (x, y, metric):
        column_of(outcomes, name)
    values = outcomes.assign(**{metric: outcomes[metric].astype(float)})
    return values.pivot_table(index=y, columns=x, values=metric, aggfunc="mean", dropna=False)


def fewest(outcomes: pd.DataFrame, *, x: str, y: str) -> int:
    """Runs of the pair of levels that has fewest, among those that have any."""
    return int(outcomes.groupby([x, y]).size().min()) if len(outcomes) else 0


def logarithmic(levels: pd.Series[Any]) -> bool:
    """Are these numbers that ask for a logarithmic axis? None negative, and spread over a factor of 8."""
    if not pd.api.types.is_numeric_dtype(levels):
        return False
    positive = levels.loc[levels > 0]
    return bool((levels >= 0).all()) and len(positive) > 1 and math.log2(positive.max() / positive.min()) >= 3
