import io

import numpy as np
import pytest
from rich.console import Console

from analysis.measures.collapse import Criteria
from analysis.measures.outcomes import outcome_table
from analysis.verdicts.by_arm import cells, to_rich, verdict_table
from tests.analysis.factories import learning_run, recorded, run_of

CRITERIA = Criteria(target=0.75, chance=0.1, collapse_window_updates=2)
GOOD, FALL, SLOW = [0.3, 0.8, 0.9, 0.9], [0.5, 0.8, 0.2, 0.2], [0.2, 0.3, 0.4, 0.5]


def table(*arms: str):
    runs = []
    for arm in arms:
        known = {"good": [GOOD] * 3, "mixed": [GOOD, FALL, SLOW], "seldom": [GOOD, SLOW, SLOW]}
        curves = known.get(arm, [SLOW] * 3)
        runs += [learning_run(curve, arm=arm, seed=seed) for seed, curve in enumerate(curves)]
    return verdict_table(outcome_table(runs, CRITERIA), rng=np.random.default_rng(0))


def shown(names: tuple[str, ...], width: int, encoding: str = "utf-8") -> str:
    bytes_out = io.BytesIO()
    stream = io.TextIOWrapper(bytes_out, encoding=encoding)
    Console(file=stream, width=width).print(to_rich(table(*names), width=width, encoding=encoding))
    stream.flush()
    return bytes_out.getvalue().decode(encoding)


def test_an_arm_is_a_row_of_means_counts_and_an_interval():
    row = table("good", "mixed").loc["mixed"]
    assert (row["n"], row["collapsed"], row["reached"]) == (3, 1, 2)
    assert row["final_score"] == pytest.approx((0.9 + 0.2 + 0.5) / 3)
    assert (row["final_score_low"], row["final_score_high"]) == pytest.approx((0.2, 0.9))
    # Reached at 2 h, 2 h and never: half of the seeds are there at 2 h.
    assert row["median_hours_to_target"] == 2.0


def test_how_it_reads():
    words = cells(table("good", "mixed", "slow", "seldom"))
    assert words.loc["seldom", "to target"] == "not reached (1 of 3)"  # in half of the seeds
    assert words.loc["mixed", "collapsed"] == "1 of 3"
    assert words.loc["slow", "to target"] == "not reached (0 of 3)"
    assert words.loc["good", "final score"] == "0.900 [0.900, 0.900]"
    assert words.loc["good", "trainer idle"] == "25%"
    assert "masked tokens" not in words  # not measured is not 0
    assert words.loc["good", "seeds"] == "3"


def test_runs_with_a_refused_update_are_counted_beside_the_means_they_are_in():
    whole, broken = (
        learning_run(GOOD, arm="grpo", seed=seed, refused=refused) for seed, refused in enumerate((0.0, 1.0))
    )
    outcomes = outcome_table([whole, broken], CRITERIA)
    assert outcomes["refused_updates"].tolist() == [0, len(GOOD)]
    words = cells(verdict_table(outcomes, rng=np.random.default_rng(0)))
    assert words.loc["grpo", "update refused"] == "1 of 2"
    assert words.loc["grpo", "collapsed"] == "1 of 2"


def test_a_run_that_only_kept_time_shows_dashes_for_learning():
    outcomes = outcome_table([run_of(recorded(None))], CRITERIA)
    words = cells(verdict_table(outcomes, rng=np.random.default_rng(0)))
    assert not {"final score", "collapsed", "to target"} & set(words)
    assert words.loc["arm", "trainer idle"] == "25%"


@pytest.mark.parametrize("width", [80, 200])
def test_nothing_is_cut_off_in_a_terminal_of_any_width(width):
    names = ("good", "mixed", "slow", "synchronous_reference", "e")
    text = shown(names, width)
    assert max(map(len, text.splitlines())) <= width
    for name in names:
        assert name in text
    assert text.count("not reached (0 of 3)") == 3
    assert "…" not in text


def test_it_survives_a_terminal_that_speaks_ascii_only():
    text = shown(("[red]naïve→[/red]",), 80, encoding="ascii")
    assert r"[red]na\xefve\u2192[/red]" in text  # a name, not markup
    assert text.isascii()


def test_many_arms_stand_down_and_a_few_across():
    few, many = shown(("good", "mixed"), 80), shown(tuple("abcdefghi"), 80)
    assert "| final score" in few
    assert "| final score" not in many
    assert "| i |" in many


def test_with_an_imposed_lag_nobody_waits_and_times_are_updates():
    outcomes = outcome_table([learning_run(GOOD, arm="a", seed=seed) for seed in range(3)], CRITERIA)
    words = cells(
        verdict_table(outcomes.assign(clock="imposed"), rng=np.random.default_rng(0)), score="reward"
    )
    assert not {"hours", "trainer idle", "engine idle"} & set(words)
    assert words.loc["a", "to target"] == "7200 updates (3 of 3)"  # two hours of 3,600 seconds
    assert words.loc["a", "final reward"] == "0.900 [0.900, 0.900]"
