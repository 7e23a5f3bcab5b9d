"""How did the runs end, and what do they say together? Two tables of a report."""

from __future__ import annotations

import math

import pandas as pd

from analysis.fits.every import WORDS, fit_table
from analysis.report import page as html
from analysis.tables.fates import shares_of_fates


def fates(outcomes: pd.DataFrame) -> list[str]:
    """Shares of each arm's seeds that collapsed, stalled, still learned or reached the target."""
    shares = shares_of_fates(outcomes)
    if shares.empty:
        return []
    words = [
        f"{row['events']} of {row['n']}: {row['share']:.0%} [{row['low']:.0%}, {row['high']:.0%}]"
        for _, row in shares.iterrows()
    ]
    table = shares.assign(words=words).pivot(index="arm", columns="fate", values="words")
    began = outcomes.loc[outcomes["collapsed"].astype(bool)].groupby("arm")["event_update"].median()
    table = table.loc[list(dict.fromkeys(shares["arm"])), list(dict.fromkeys(shares["fate"]))]
    table["median update of collapse"] = [f"{began[arm]:.0f}" if arm in began else "-" for arm in table.index]
    return [
        html.section(
            "How the runs ended",
            html.data_table(table, corner="arm"),
            html.paragraph("Every seed has one end; shares with Wilson's 95 % interval.", "soft"),
        )
    ]


def fitted(outcomes: pd.DataFrame) -> list[str]:
    """What was fitted across arms, or why it could not be."""
    table = fit_table(outcomes)
    if table.empty:
        return []
    value = [
        "-" if math.isnan(row["estimate"]) else f"{row['estimate']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"
        for _, row in table.iterrows()
    ]
    shown = pd.DataFrame(
        {
            "quantity": [WORDS[name] for name in table["quantity"]],
            "value": value,
            "runs": table["runs"],
            "note": table["note"],
        }
    ).set_axis(table["estimator"], axis=0)
    return [
        html.section(
            "Fits across arms",
            html.data_table(shown, corner="estimator", words=True),
            html.paragraph("95 % intervals by bootstrap over seeds, arm by arm; shares by Wilson.", "soft"),
        )
    ]
