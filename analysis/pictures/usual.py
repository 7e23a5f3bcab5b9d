"""Which figures does a report show, and what does each say in words?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from analysis.figures import collapse as collapse_figures
from analysis.figures import lines as figures
from analysis.figures.style import Look, looks, svg
from analysis.measures.curves import curve_table
from analysis.pictures.picture import Picture
from analysis.study import Study

BAND = "Line: mean over seeds; band: 95 % bootstrap interval; an arm ends where its shortest run ends."
SEEN = {
    "masked_fraction": ("Masked tokens", "Share of tokens that the trust region left out of the gradient."),
    "flat_fraction": ("Flat tokens", "Share of tokens whose contribution to the gradient is exactly 0."),
    "entropy": (
        "Entropy of the policy",
        "In nats a token, over all questions; 0 is a policy in no doubt.",
    ),
}


def study_pictures(study: Study, rng: np.random.Generator) -> list[Picture]:
    """Every figure that the study has data for, in the order of a reader's questions."""
    shown = [
        _score(study, "version", "update", "by update", rng),
        _score(study, "hours", _hours(study), "by time", rng),
        _collapse(study),
        _lags(study),
        _idle(study),
        *(
            _curve(study, name, "version", "update", title, rng, caption=caption)
            for name, (title, caption) in SEEN.items()
        ),
    ]
    return [picture for picture in shown if picture is not None]


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

    def draw(axes: Axes) -> None:
        label = metric.replace("_", " ")
        figures.mean_curves(table, axes, look=_looks(study), x=x_label, y=label, levels=levels)

    ends = table.groupby("arm", sort=False).last()
    said = "; ".join(
        f"{arm} ends at {row['mean']:.3g} after {row['x']:.3g}, n = {row['n']:.0f}"
        for arm, row in ends.iterrows()
    )
    return Picture(
        title=title,
        svg=svg(draw, name=f"{metric}-{x}"),
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
    measured = study.outcomes.loc[study.outcomes["fate"] != "not measured"]
    if not measured["collapsed"].any():
        return None
    counts = measured.groupby("arm", sort=False)["collapsed"].agg(["sum", "size"])
    said = "; ".join(f"{arm}: {row['sum']} of {row['size']} collapsed" for arm, row in counts.iterrows())

    def draw(axes: Axes) -> None:
        collapse_figures.survival(measured.assign(line=measured["arm"]), axes, look=_looks(study))

    return Picture(
        title="Seeds still standing",
        svg=svg(draw, name="collapse", height_in=3.2 + 0.18 * len(counts)),
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

    def draw(axes: Axes) -> None:
        figures.lag_histogram(study.lags, axes, look=_looks(study))

    return Picture(
        title="How old was the data?",
        svg=svg(draw, name="lag"),
        alt=f"Share of trained rollouts by lag in updates. {said}.",
        caption="Lag of each trained rollout's oldest token, all seeds of an arm together.",
    )


def _idle(study: Study) -> Picture | None:
    if study.idle.empty:
        return None
    totals = study.idle.groupby(["arm", "kind"], sort=False)["idle"].sum().reset_index()
    said = "; ".join(f"{bar['arm']}, {bar['kind']}: {bar['idle']:.0%}" for _, bar in totals.iterrows())
    bars = len(totals)

    def draw(axes: Axes) -> None:
        figures.idle_bars(study.idle, axes)

    return Picture(
        title="How idle were the machines?",
        svg=svg(draw, name="idle", height_in=max(1.6, 0.6 + 0.27 * bars)),
        alt=f"Idle share. {said}.",
        caption="Mean over seeds; engines by slot. From the start of the run to the end of its last update.",
    )
