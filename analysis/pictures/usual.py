"""Which figures does a report show, and what does each say in words?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final, Literal

import numpy as np
import pandas as pd

from analysis.figures import collapse as collapse_figures
from analysis.figures import lines as figures
from analysis.figures.lines import runs_in_words
from analysis.figures.style import Look, drawing, looks
from analysis.measures.curves import curve_table
from analysis.pictures.picture import Picture
from analysis.study import Study

BAND: Final = (
    "Line: mean over seeds (n in the legend); band: 95 % bootstrap interval; an arm ends where its shortest"
    " run ends."
)
MOST_ARMS: Final = 8
"""Of more, a figure shows the ends of the ranking: that many lines can still be told apart."""
SEEN: Final = {
    "masked_fraction": ("Masked tokens", "Share of tokens that the trust region left out of the gradient."),
    "flat_fraction": ("Flat tokens", "Share of tokens whose contribution to the gradient is exactly 0."),
    "entropy": (
        "Entropy of the policy",
        "In nats a token, over all questions; 0 is a policy in no doubt.",
    ),
}


def study_pictures(study: Study, rng: np.random.Generator) -> list[Picture]:
    """Every figure that the study has data for, in the order of a reader's questions.

    Of more than `MOST_ARMS` arms those that rank highest and lowest are drawn; each caption says so.
    """
    arms = list(dict.fromkeys(study.outcomes["arm"]))
    shown = study if len(arms) <= MOST_ARMS else _of_arms(study, _ends_of_ranking(study))
    drawn = [
        _score(shown, "version", "update", "by update", rng),
        _score(shown, "hours", _hours(shown), "by time", rng),
        _collapse(shown),
        _lags(shown),
        _idle(shown),
        *(
            _curve(shown, name, "version", "update", title, rng, caption=caption)
            for name, (title, caption) in SEEN.items()
        ),
    ]
    pictures = [picture for picture in drawn if picture is not None]
    if shown is study:
        return pictures
    said = f"{MOST_ARMS} of {len(arms)} arms: the {MOST_ARMS // 2} highest and {MOST_ARMS // 2} lowest in"
    note = f"{said} {_ranked_by(study).replace('_', ' ')}."
    return [replace(picture, caption=f"{note} {picture.caption}") for picture in pictures]


def _ranked_by(study: Study) -> str:
    """The final score, or where nothing learned the mean lag."""
    return "mean_lag" if study.outcomes["final_score"].isna().all() else "final_score"


def _ends_of_ranking(study: Study) -> list[str]:
    """The arms that rank highest and those that rank lowest, best first."""
    ranked = study.outcomes.groupby("arm", sort=False)[_ranked_by(study)].mean()
    names = [str(arm) for arm in ranked.sort_values(ascending=False, kind="stable").index]
    return names[: MOST_ARMS // 2] + names[-(MOST_ARMS - MOST_ARMS // 2) :]


def _of_arms(study: Study, arms: list[str]) -> Study:
    """The runs of these arms only, in the study's order."""
    return replace(
        study,
        **{
            name: table.loc[table["arm"].isin(arms)].reset_index(drop=True)
            for name in ("outcomes", "updates", "lags", "idle")
            for table in [getattr(study, name)]
        },
    )


def _score(
    study: Study, x: Literal["version", "hours"], x_label: str, by: str, rng: np.random.Generator
) -> Picture | None:
    criteria = study.criteria
    title = f"{criteria.metric.capitalize()} {by}"
    levels = {"chance": criteria.chance, "target": criteria.target}
    return _curve(study, criteria.metric, x, x_label, title, rng, levels=levels)


def _curve(
    study: Study,
    metric: str,
    x: Literal["version", "hours"],
    x_label: str,
    title: str,
    rng: np.random.Generator,
    *,
    caption: str = "",
    levels: Mapping[str, float] | None = None,
) -> Picture | None:
    if metric not in study.updates.columns or study.updates[metric].isna().all():
        return None
    table = curve_table(study.updates, metric, x=x, rng=rng)

    label = metric.replace("_", " ")
    draw = partial(figures.mean_curves, table, look=_looks(study), x=x_label, y=label, levels=levels)
    ends = table.groupby("arm", sort=False).last()
    said = "; ".join(
        f"{arm} ends at {row['mean']:.3g} after {row['x']:.3g}, n = {row['n']:.0f}"
        for arm, row in ends.iterrows()
    )
    return Picture(
        title=title,
        drawing=drawing(draw, name=f"{metric}-{x}"),
        alt=f"{title}, one line an arm: {said}.",
        caption=f"{caption} {BAND}".strip(),
    )


def _looks(study: Study) -> dict[str, Look]:
    """The same look for an arm in every figure."""
    return looks([str(arm) for arm in dict.fromkeys(study.outcomes["arm"])])


def _hours(study: Study) -> str:
    clocks = set(study.outcomes["clock"])
    return f"{clocks.pop()} hours" if len(clocks) == 1 else "hours (simulated and wall-clock runs mixed)"


def _collapse(study: Study) -> Picture | None:
    measured = study.outcomes.loc[
        study.outcomes["fate"] != "not measured", ["arm", "seed", "event_update", "collapsed"]
    ]
    if not measured["collapsed"].any():
        return None
    counts = measured.groupby("arm", sort=False)["collapsed"].agg(["sum", "size"])
    said = "; ".join(f"{arm}: {row['sum']} of {row['size']} collapsed" for arm, row in counts.iterrows())
    table = measured.assign(line=measured["arm"])
    return Picture(
        title="Seeds still standing",
        drawing=drawing(
            partial(collapse_figures.survival, table, look=_looks(study)),
            name="collapse",
            height_in=3.2 + 0.18 * len(counts),
        ),
        alt=f"Kaplan-Meier curves. {said}.",
        caption="Kaplan-Meier with its pointwise 95 % band; a seed that ended unbroken is censored there.",
    )


def _lags(study: Study) -> Picture | None:
    if study.lags.empty:
        return None
    by_arm = study.outcomes.groupby("arm", sort=False)
    means = by_arm.agg({"mean_lag": "mean", "max_lag": "max"})
    said = "; ".join(
        f"{arm}: mean {row['mean_lag']:.2f}, largest {row['max_lag']:.0f}" for arm, row in means.iterrows()
    )
    return Picture(
        title="How old was the data?",
        drawing=drawing(partial(figures.lag_histogram, study.lags, look=_looks(study)), name="lag"),
        alt=f"Share of trained rollouts by lag in updates. {said}.",
        caption=f"Lag of each trained rollout's oldest token, all seeds of an arm together:"
        f" {study.lags['rollouts'].sum():,} rollouts of {runs_in_words(pd.Series([len(study.outcomes)]))}.",
    )


def _idle(study: Study) -> Picture | None:
    if study.idle.empty:
        return None
    totals = study.idle.groupby(["arm", "kind"], sort=False)["idle"].sum().reset_index()
    said = "; ".join(f"{bar['arm']}, {bar['kind']}: {bar['idle']:.0%}" for _, bar in totals.iterrows())
    bars, seeds = len(totals), study.outcomes["arm"].value_counts()
    return Picture(
        title="How idle were the machines?",
        drawing=drawing(
            partial(figures.idle_bars, study.idle), name="idle", height_in=max(1.6, 0.6 + 0.27 * bars)
        ),
        alt=f"Idle share. {said}.",
        caption=f"Mean over {runs_in_words(seeds)} an arm; engines by slot. From the start of the run to"
        " the end of its last update.",
    )
