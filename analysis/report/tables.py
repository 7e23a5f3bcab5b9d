"""How did the runs end, and what do they say together? Two sections of a report."""

from __future__ import annotations

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
    table = table.loc[list(dict.fromkeys(shares["arm"])), list(dict.fromkeys(shares["fate"]))]
    # Collapse is always asked about; of the other ends, those that no run came to say nothing.
    met = set(shares.loc[shares["events"] > 0, "fate"]) | {"collapsed"}
    table = table[[fate for fate in table.columns if fate in met]]
    began = outcomes.loc[outcomes["collapsed"].astype(bool)].groupby("arm")["event_update"].median()
    if len(began):
        table["median update of collapse"] = [
            f"{began[arm]:.0f}" if arm in began else "-" for arm in table.index
        ]
    return [
        html.data_table(table, corner="arm"),
        html.paragraph("Every seed has one end; shares with Wilson's 95 % interval.", "soft"),
        html.source(how_the_runs_ended=shares),
    ]


def fitted(outcomes: pd.DataFrame) -> list[str]:
    """What was fitted across arms, or why it could not be."""
    table = fit_table(outcomes)
    if table.empty:
        return []
    known = table.loc[table["estimate"].notna()]
    shown = pd.DataFrame(
        {
            "quantity": [WORDS[name] for name in known["quantity"]],
            "value": [
                f"{row['estimate']:.3g} [{row['low']:.3g}, {row['high']:.3g}]" for _, row in known.iterrows()
            ],
            "runs": known["runs"],
            "note": known["note"],
        }
    ).set_axis(known["estimator"], axis=0)
    if not shown["note"].any():
        shown = shown.drop(columns="note")
    return [
        *([html.data_table(shown, corner="estimator", words=True)] if len(shown) else []),
        html.paragraph("95 % intervals by bootstrap over seeds, arm by arm; shares by Wilson.", "soft"),
        *(html.paragraph(said, "soft") for said in _not_fitted(table.loc[table["estimate"].isna()])),
        html.source(fits_across_arms=table),
    ]


def _not_fitted(table: pd.DataFrame) -> list[str]:
    """What cannot be had and why: a sentence a quantity, for all estimators that have the same reason."""
    return [
        f"{', '.join(map(str, own['estimator']))}: {WORDS[str(quantity)]}: {note}."
        for (quantity, note), own in table.groupby(["quantity", "note"], sort=False)
    ]
