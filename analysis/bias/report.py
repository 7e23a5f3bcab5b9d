"""What does a table of exact bias say? As text for a terminal, as one JSON object, as files.

The worlds are a sample of worlds: every number is a mean over them, with Student's t interval.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pandas as pd

from analysis.bias.figure import by_lag, sweep_heat
from analysis.figures.style import alone, looks, svg
from analysis.statistics.intervals import t_interval

BY_ESTIMATOR: Final = ("estimator", "lag")
BY_BAND: Final = ("trust", "eps_low", "eps_high", "lag")
MEASURES: Final = {
    "relative_bias": "|E g - true| / |true|",
    "cosine": "of E g with the true gradient",
    "component": "E g along the true gradient / |true|",
    "std_per_rollout": "one rollout's standard deviation / |true|",
    "masked": "tokens without value and gradient",
    "clipped": "tokens without gradient",
    "flat": "tokens without gradient, for any reason",
}
SWEPT: Final = ("relative_bias", "component", "flat")
_NAME: Final = 20
_LEGEND: Final = """\
bias   distance of the mean gradient from the true one, in units of its norm
along  its component along the true one: 1 is right, what lacks is thrown away
cos    its cosine with the true one
noise  standard deviation of one rollout's gradient, in the same units
still  share of tokens, by probability, that get no gradient
token-ratio, sequence-ratio: nothing masked or clipped, for comparison
All get the same exact advantages: estimators that differ in nothing else agree."""


def summary(
    table: pd.DataFrame, *, by: Sequence[str] = BY_ESTIMATOR, measures: Sequence[str] = tuple(MEASURES)
) -> pd.DataFrame:
    """Mean and 95 % t interval over worlds of each measure, a row for each of `by`, in the table's order.

    Returns:
        Columns of `by`, n, drift_nats (mean), and for each measure its name, `_low` and `_high`.

    Raises:
        ValueError: a value that is not finite.
    """
    rows = []
    for key, own in table.groupby(list(by), sort=False):
        row: dict[str, object] = dict(zip(by, key, strict=True))
        row |= {"n": own["world"].nunique(), "drift_nats": own["drift_nats"].mean()}
        for measure in measures:
            interval, _ = t_interval(own[measure])
            row |= {
                measure: interval.estimate,
                f"{measure}_low": interval.low,
                f"{measure}_high": interval.high,
            }
        rows.append(row)
    return pd.DataFrame(rows)


def text(table: pd.DataFrame, sweep: pd.DataFrame | None = None) -> str:
    """Blocks by lag, at most 80 columns wide; then the sweep's grids, if there is one."""
    found = summary(table)
    lines = [
        f"mean [95 % t interval] over n = {table['world'].nunique()} worlds of seed {table['seed'].iloc[0]}",
        f"drift: {table['drift'].iloc[0]}; updates made on the batch before: {table['into_batch'].iloc[0]}",
        "",
    ]
    head = f"{'':{_NAME}} {'bias':<17} {'along':<20} {'cos':>5} {'noise':>5} {'still':>5}"
    for lag, own in found.groupby("lag", sort=True):
        drift = f"{own['drift_nats'].iloc[0]:.3g}"
        lines += [f"lag {lag}: the policies are {drift} nats a token apart (KL)", head]
        for row in own.to_dict("records"):
            name = str(row["estimator"])
            if len(name) > _NAME:
                lines.append(name)
                name = ""
            bias = _bracketed(row, "relative_bias")
            along = _bracketed(row, "component")
            rest = f"{row['cosine']:5.2f} {row['std_per_rollout']:5.2f} {row['flat']:5.0%}"
            lines.append(f"{name:{_NAME}} {bias:<17} {along:<20} {rest}")
        lines.append("")
    lines.append(_LEGEND)
    if sweep is not None:
        lines += ["", *_grids(summary(sweep, by=BY_BAND, measures=SWEPT))]
    return "\n".join(line.rstrip() for line in lines)


def to_json(table: pd.DataFrame, sweep: pd.DataFrame | None = None) -> str:
    """The summaries as one JSON object; a number that is not finite is null."""
    parts = {
        "estimators": summary(table),
        "sweep": None if sweep is None else summary(sweep, by=BY_BAND, measures=SWEPT),
    }
    rows = {
        name: None if part is None else json.loads(part.to_json(orient="records", double_precision=15))
        for name, part in parts.items()
    }
    about = {"worlds": int(table["world"].nunique()), "drift": table["drift"].iloc[0], "measures": MEASURES}
    about |= {name: int(table[name].iloc[0]) for name in ("seed", "into_batch")}
    return json.dumps(about | rows, allow_nan=False)


def files(table: pd.DataFrame, sweep: pd.DataFrame | None = None) -> dict[str, str]:
    """What a folder of results holds: tables of every world (CSV) and figures (SVG), by file name."""
    found = summary(table)
    arms = list(found["estimator"].unique())
    out = {"table.csv": table.to_csv(index=False)}
    for column, label, levels in (
        ("relative_bias", "relative bias", {}),
        ("component", "component along the true gradient", {"right": 1.0}),
        ("std_per_rollout", "noise of one rollout", {}),
    ):
        draw = partial(by_lag, found, look=looks(arms), column=column, label=label, levels=levels)
        name = f"{column.replace('_', '-')}-by-lag"
        out[f"{name}.svg"] = alone(svg(draw, name=name))
    if sweep is None:
        return out
    out["sweep.csv"] = sweep.to_csv(index=False)
    swept = summary(sweep, by=BY_BAND, measures=SWEPT)
    for trust, lag in swept[["trust", "lag"]].drop_duplicates().itertuples(index=False):
        if lag == 0:
            continue  # every band holds a ratio of one: nothing to see
        for column, label in (("relative_bias", "relative bias"), ("component", "component along truth")):
            draw = partial(sweep_heat, swept, trust=str(trust), lag=int(lag), column=column, label=label)
            name = f"{trust}-lag-{lag}-{column.replace('_', '-')}"
            out[f"{name}.svg"] = alone(svg(draw, name=name, width_in=5.4))
    return out


def _grids(swept: pd.DataFrame) -> list[str]:
    lines = []
    for (trust, lag), own in swept.groupby(["trust", "lag"], sort=False):
        if lag == 0:
            continue
        cells = own["relative_bias"].map(_two) + "/" + own["component"].map(_two)
        grid = own.assign(cell=cells).pivot(index="eps_low", columns="eps_high", values="cell")
        lines += [
            f"{trust}, lag {lag}: bias/along; eps_low down, eps_high across",
            " " * 6 + "".join(f"{high:>11g}" for high in grid.columns),
            *(f"{low:>6g}" + "".join(f"{cell:>11}" for cell in row) for low, *row in grid.itertuples()),
            "",
        ]
    return lines[:-1]


def _bracketed(row: Mapping[Hashable, Any], measure: str) -> str:
    estimate, low, high = (_two(row[f"{measure}{end}"]) for end in ("", "_low", "_high"))
    return f"{estimate} [{low}, {high}]"


def _two(number: float) -> str:
    # Adding zero takes the sign off a rounding error of zero.
    return f"{round(number, 2) + 0.0:.2f}"
