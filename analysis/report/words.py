"""How does a judged study read? The headline, the claims, how it was made, what the words mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from analysis.measures.collapse import Criteria
from analysis.statistics.intervals import t_interval
from analysis.tables.numbers import p_value
from analysis.verdicts.judge import MINIMUM_SEEDS, Verdict, verdict_rows

MOST_LISTED: Final = 6
"""Arms of which the headline names each; of more it says how many."""


def headline(
    table: pd.DataFrame, outcomes: pd.DataFrame, verdicts: Sequence[Verdict], *, score: str = "accuracy"
) -> str:
    """The verdict in a few sentences: who learned most, is that separable, what collapsed, what held."""
    said: list[str] = []
    ranked = table.loc[table["measured"] > 0].sort_values("final_score", ascending=False, kind="stable")
    if len(ranked) > 1:
        said.append(_best(ranked, outcomes, score))
        broken = ranked.loc[ranked["collapsed"] > 0]
        listed = ", ".join(
            f"{arm} in {row['collapsed']:.0f} of {row['measured']:.0f} seeds"
            for arm, row in broken.iterrows()
        )
        if len(broken) > MOST_LISTED:
            listed = (
                f"{broken['collapsed'].sum():.0f} of {ranked['measured'].sum():.0f} seeds,"
                f" in {len(broken)} of {len(ranked)} arms"
            )
        said.append(f"Collapsed: {listed}." if listed else "No seed of any arm collapsed.")
    elif len(ranked) == 1:
        row = ranked.iloc[0]
        said.append(
            f"{ranked.index[0]} ends at {_plain(score)} {row['final_score']:.3f} "
            f"({row['collapsed']:.0f} of {row['measured']:.0f} seeds collapsed)."
        )
    elif len(table) > 1:
        said.append(_from_least_to_most(table))
    else:
        arm, row = table.index[0], table.iloc[0]
        said.append(
            f"{arm}: mean lag {row['mean_lag']:.2f} updates, trainer {row['trainer_idle']:.0%} idle, "
            f"engines {row['engine_idle']:.0%} idle."
        )
    if verdicts:
        found = {
            kind: sum(v.verdict == kind for v in verdicts)
            for kind in ("supported", "contradicted", "not separable", "not run")
        }
        counts = ", ".join(f"{n} {kind}" for kind, n in found.items() if n or kind != "not run")
        said.append(f"Of {len(verdicts)} claims: {counts}.")
    return " ".join(said)


def missing_runs(found: int, registered: int | None) -> str:
    """How much of what was registered is not there; empty if nothing is missing."""
    missing = (registered or found) - found
    if missing <= 0:
        return ""
    return f"{missing} of {registered} registered runs {'is' if missing == 1 else 'are'} missing."


def absent(missing: Sequence[str]) -> dict[str, str]:
    """Which registered runs are not there, by name: nothing of them is in any number."""
    return {"missing runs": ", ".join(missing)} if missing else {}


def _from_least_to_most(table: pd.DataFrame) -> str:
    lags = table["mean_lag"].sort_values(kind="stable")
    idle = [
        f"{name} {table[column].min():.0%} to {table[column].max():.0%} idle"
        for name, column in (("trainers", "trainer_idle"), ("engines", "engine_idle"))
    ]
    return (
        f"Mean lag from {lags.iloc[0]:.2f} updates ({lags.index[0]}) to {lags.iloc[-1]:.2f}"
        f" ({lags.index[-1]}); {', '.join(idle)}."
    )


def _plain(score: str) -> str:
    return score.replace("_", " ")


def _best(ranked: pd.DataFrame, outcomes: pd.DataFrame, score: str) -> str:
    """The arm with the highest final score, and whether seeds tell it from the second."""
    first, second = ranked.index[0], ranked.index[1]
    by_arm = outcomes.pivot(index="seed", columns="arm", values="final_score")[[first, second]].dropna()
    gain, _ = t_interval((by_arm[first] - by_arm[second]).to_numpy(dtype=float))
    lead = f"{first} ends highest, at {_plain(score)} {ranked['final_score'].iloc[0]:.3f}"
    numbers = f"{gain.estimate:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] over {gain.n} paired seeds"
    if gain.n < MINIMUM_SEEDS:
        return f"{lead}; too few paired seeds to tell it from {second}."
    if gain.low > 0:
        return f"{lead}, above {second} by {numbers}."
    return f"{lead}, not separable from {second} ({numbers})."


def provenance(meta: Mapping[str, Any]) -> dict[str, str]:
    """Of a study's `meta.json`, what a reader needs to make it again; nested tables become one line."""
    wanted = ("command", "git_revision", "source_digest", "created", "versions")
    return {name.replace("_", " "): _line(meta[name]) for name in wanted if meta.get(name)}


def _line(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {entry}" for name, entry in sorted(value.items()))
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)


def scope(outcomes: pd.DataFrame) -> str:
    clocks = set(outcomes["clock"])
    hours = f"hours are {' and '.join(sorted(clocks - {'imposed'}))} hours. " if clocks - {"imposed"} else ""
    lag = "lag was imposed, and there is no clock. " if "imposed" in clocks else ""
    counted = {"run": len(outcomes), "arm": outcomes["arm"].nunique(), "seed": outcomes["seed"].nunique()}
    said = ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for what, n in counted.items())
    intervals = (
        "Intervals are 95 % over seeds; with few seeds they are too narrow."
        if counted["seed"] > 1
        else "One seed has no interval over seeds."
    )
    return f"{said}; {hours}{lag}{intervals}"


def claims(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    rows = verdict_rows(verdicts).set_index("id")
    found = [f"{_found(row)}; claimed: {_claimed(row)}" for _, row in rows.iterrows()]
    tested = [_tested(row) for _, row in rows.iterrows()]
    return pd.DataFrame(
        {
            "claim": rows["claim"],
            "verdict": rows["verdict"],
            "better by, or value": found,
            "test": tested,
            "note": rows["note"],
            "source": rows["source"],
        },
        index=rows.index,
    )


def _found(row: pd.Series[Any]) -> str:
    if row["missing_arms"]:
        return str(row["n"])
    if math.isnan(row["estimate"]):
        return "no value"
    return f"{row['estimate']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"


def _claimed(row: pd.Series[Any]) -> str:
    if row["between"] is None:
        return f"more than {row['beyond']:g}"
    low, high = row["between"]
    return f"between {low:g} and {high:g}"


def _tested(row: pd.Series[Any]) -> str:
    """Test, p value, its correction for the number of claims, kind of interval, and n."""
    if row["missing_arms"]:
        return str(row["test"])
    interval = f"interval: {row['interval']}; {row['n']}"
    if math.isnan(row["p_value"]):
        return f"{row['test']}; {interval}"
    return f"{row['test']}, {p_value(row['p_value'])} ({p_value(row['p_holm'])} by Holm); {interval}"


def multiplicity(verdicts: Sequence[Verdict]) -> str:
    """How many claims were judged, and which of the decided ones would stand if that is corrected for."""
    rows = verdict_rows([v for v in verdicts if v.verdict != "not run"])
    if rows.empty:
        return "No claim was judged: of each an arm was not run."
    tested = rows.loc[rows["p_value"].notna()]
    said = f"{len(rows)} claims, each judged on its own at its stated confidence; no verdict is corrected."
    if len(tested) < 2:
        return said
    level = tested["id"].map({v.hypothesis.id: 1 - v.hypothesis.confidence for v in verdicts})
    found = tested["p_value"] <= level
    lost = tested.loc[found & (tested["p_holm"] > level), "id"].tolist()
    stands = f"all but {', '.join(lost)}" if lost else "all"
    return (
        f"{said} Of {len(tested)} tests, {found.sum()} find a difference; after Holm's correction for their"
        f" number {stands if found.any() else 'none'} of these still do. Fitted quantities have no test."
    )


def seeds_by_arm(outcomes: pd.DataFrame) -> dict[str, str]:
    """Which seeds each arm ran; said once if all ran the same."""
    seeds = {
        f"seeds of {arm}": ", ".join(str(seed) for seed in sorted(own["seed"]))
        for arm, own in outcomes.groupby("arm", sort=False)
    }
    same = set(seeds.values())
    return {"seeds of every arm": same.pop()} if len(same) == 1 and len(seeds) > 1 else seeds


def definitions(c: Criteria, *, learned: bool) -> list[tuple[str, str]]:
    """What each word of the report means, with the numbers of this study's criteria."""
    timing = [
        (
            "lag",
            "Updates between the version that sampled a rollout's oldest token and the trainer's version when"
            " training on it started. Time in the queue counts. p99 by linear interpolation"
            " within a seed, then the mean over seeds.",
        ),
        (
            "idle",
            "Share of the time to the end of the last update in which a machine did no work;"
            " engines by slot.",
        ),
    ]
    if not learned:
        return timing
    return [
        *timing,
        (
            "final accuracy",
            f"Mean {c.metric} over the last {c.final_share:.0%} of the updates; mean over seeds with a 95 %"
            " percentile bootstrap interval.",
        ),
        (
            "collapse",
            f"{c.metric.capitalize()} below {c.collapse_share:g} of its running maximum for"
            f" {c.collapse_window_updates} updates or more, after it had reached {c.learned_score:.3g};"
            " or a number that is not finite.",
        ),
        (
            "update refused",
            "Runs in which the learner left out an update because its loss or gradient was not finite. Each"
            " counts as collapsed; its other numbers are averaged with those of the arm, so they are to be"
            " read with this count.",
        ),
        (
            "stall",
            f"No collapse, below the target, and less than {c.stall_gain:g} gained in the last"
            f" {c.stall_share:.0%} of the updates.",
        ),
        (
            "hours to target",
            f"Hours until {c.metric} first reached {c.target:g}; median over seeds, seeds that never did"
            " counting as later than any.",
        ),
        (
            "masked, flat tokens",
            "Tokens that the trust region left out, and tokens whose contribution to the gradient is"
            " exactly 0; means over all updates, weighted by tokens.",
        ),
    ]
