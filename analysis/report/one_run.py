"""What does the page of a single run show beside its verdict? Tables of lag, idleness, tokens and lengths."""

from __future__ import annotations

import math

import pandas as pd

from analysis.measures.completion import completion
from analysis.measures.lag_split import PARTS, lag_split, split_means
from analysis.measures.lag_table import advantage_sizes, run_lag_table
from analysis.measures.lengths import length_table
from analysis.measures.outcomes import idle_shares
from analysis.measures.throughput import account
from analysis.report import page as html
from analysis.runs import Run

Section = tuple[str, list[str]]
"""A heading and what stands under it, as HTML."""


def run_sections(run: Run) -> list[Section]:
    """Lag by part, idleness by cause, token ledger, lengths, waiting, lag by what is counted."""
    return [
        (
            "Where did the lag come from?",
            [
                html.data_table(split_words(run), corner="rollouts"),
                html.paragraph(
                    "Mean updates, from the version of a rollout's oldest token to the trainer's when it was"
                    " used or dropped: published while it decoded, while it waited for its group, while it"
                    " was queued, and what the trainer had made by then that no engine held (earlier updates"
                    " of the batch).",
                    "soft",
                ),
                html.source(lag_by_part=split_means(lag_split(run.rollouts, run.updates))),
            ],
        ),
        (
            "Idle by cause",
            [
                html.data_table(idle_words(run), corner="machine"),
                html.paragraph(
                    "Shares of the time to the end of the last update; they add up to it.", "soft"
                ),
                html.source(idle_by_cause=idle_shares(run)),
            ],
        ),
        (
            "What became of every token",
            [
                html.data_table(account_words(run), corner="tokens"),
                html.paragraph(
                    "The first row is the sum of the others. What was in flight at the end counts with its"
                    " whole length.",
                    "soft",
                ),
                html.source(tokens_by_fate=account(run)),
            ],
        ),
        (
            "Generated and trained lengths",
            [
                html.data_table(length_words(run), corner="rollouts"),
                html.paragraph(
                    "In action tokens. KS: the largest difference between the shares that are no longer than"
                    " some length, against all that finished. Cut off: dropped while they decoded; their"
                    " lengths are what they had made, so the generated are shorter than what was begun.",
                    "soft",
                ),
                html.source(lengths_by_fate=length_table(run.rollouts)),
            ],
        ),
        *_completion_section(run),
        (
            "How old, by what is counted?",
            [
                html.data_table(lag_words(run), corner="rollouts, counted by"),
                html.paragraph(_lag_note(run), "soft"),
                html.source(lag_by_what_is_counted=run_lag_table(run)),
            ],
        ),
    ]


def split_words(run: Run) -> pd.DataFrame:
    means = split_means(lag_split(run.rollouts, run.updates)).set_index("population")
    words = {"rollouts": [f"{n:,}" for n in means["rollouts"]]}
    words |= {called: [f"{value:.2f}" for value in means[name]] for name, called in PARTS.items()}
    return pd.DataFrame({**words, "lag": [f"{value:.2f}" for value in means["lag"]]}, index=means.index)


def lag_words(run: Run) -> pd.DataFrame:
    table = run_lag_table(run)
    numbers = ("min", "mean", "p50", "p90", "p99", "max")
    words = {name: [_short(value, 2 if name == "mean" else 0) for value in table[name]] for name in numbers}
    counted = [f"{n:,.0f} {unit}" for n, unit in zip(table["n"], table["unit"], strict=True)]
    return pd.DataFrame(
        {"n": counted, **words},
        index=[f"{row.population}: {row.weighting}" for row in table.itertuples()],
    )


def idle_words(run: Run) -> pd.DataFrame:
    """A row a kind of machine and what it did; the shares of a kind add up to 1."""
    idle = idle_shares(run)
    rows = []
    for kind, own in idle.groupby("kind", sort=False):
        causes = own.loc[own["idle"] > 0].sort_values("idle", ascending=False, kind="stable")
        rows.append((f"{kind}: busy", 1 - float(own["idle"].sum())))
        rows += [
            (f"{kind}: idle, {str(cause).replace('_', ' ')}", share)
            for cause, share in zip(causes["cause"], causes["idle"], strict=True)
        ]
    return pd.DataFrame({"share": [f"{share:.2%}" for _, share in rows]}, index=[name for name, _ in rows])


def account_words(run: Run) -> pd.DataFrame:
    table = account(run)
    return pd.DataFrame(
        {
            "rollouts": [f"{n:,}" for n in table["rollouts"]],
            "tokens": [f"{n:,}" for n in table["tokens"]],
            "share": [f"{share:.2%}" for share in table["share"]],
        },
        index=[str(fate).replace("_", " ") for fate in table["fate"]],
    )


def length_words(run: Run) -> pd.DataFrame:
    table = length_table(run.rollouts)
    return pd.DataFrame(
        {
            "rollouts": [f"{n:,}" for n in table["rollouts"]],
            "mean length": [_short(mean, 0) for mean in table["mean_tokens"]],
            "of the generated mean": [_short(ratio, 3) for ratio in table["ratio"]],
            "KS": [_short(ks, 3) for ks in table["ks"]],
            "cut off": [f"{n:,}" for n in table["unfinished"]],
        },
        index=[str(fate).replace("_", " ") for fate in table["fate"]],
    )


def _completion_section(run: Run) -> list[Section]:
    """Empty for a run whose log does not say when rollouts were asked for."""
    if run.rollouts["submitted_s"].isna().all():
        return []
    words = completion_words(run)
    return [
        (
            "How many were answered?",
            [
                html.data_table(words, corner="attempts"),
                html.paragraph(
                    "From being asked for to the last token. One that was given up, or was still under way,"
                    " counts with the time that it was watched: a percentile among those is only known to be"
                    " larger.",
                    "soft",
                ),
                html.source(answered=words),
            ],
        )
    ]


def completion_words(run: Run) -> pd.DataFrame:
    ends = (run.updates["train_end_s"], run.updates["published_s"], run.intervals["end_s"])
    found = completion(run.rollouts, max(float(end.max()) for end in ends if end.notna().any()))
    words = {
        "offered": f"{found.offered:,}",
        "completed": f"{found.completed:,} ({found.share:.1%})",
        "tokens/s of these": _short(found.goodput_tokens_per_s, 1),
        "p50": str(found.p50),
        "p90": str(found.p90),
        "p99": str(found.p99),
    }
    return pd.DataFrame(words, index=["all"])


def _lag_note(run: Run) -> str:
    said = [
        "Updates. Oldest token: each rollout by its oldest, percentiles by linear interpolation. Rollout: all"
        " tokens, a rollout's sharing one vote; token: one vote each; loss token: those that the loss counts,"
        " all action tokens of trained rollouts"
        + (" by the log's own count" if "loss_tokens" in run.segments.columns else "")
        + "; their percentiles are the least lag that reaches the share.",
        "Contribution: loss tokens by |reward - mean of its group|, or of its update for one that is alone."
        if bool((advantage_sizes(run.rollouts) > 0).any())
        else "Contribution (by |advantage|): not measured, no rewards differ in the log.",
    ]
    left = int(run.rollouts["status"].isin(["queued", "waiting"]).sum())
    if left:
        said.append(
            f"Left: {left:,} rollouts had finished and waited when the run ended; their age so far will grow."
        )
    return " ".join(said)


def _short(value: float, digits: int) -> str:
    if math.isnan(value):
        return "-"
    text = f"{value:,.{digits}f}"
    return text if digits or value == round(value) else f"{value:,.1f}"
