import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.verdicts.judge import holm, judge, judge_all, verdict_rows
from simulator.studies.hypothesis import Hypothesis
from tests.analysis.factories import outcome_rows
from tests.analysis.worlds import grid


def claim(kind: str = "paired_difference", metric: str = "final_score", **choices) -> Hypothesis:
    arms = {} if kind == "threshold" else {"worse_arm": "grpo"}
    base = {"id": "H", "claim": "c", "source": "ours", "better_arm": "sao", "metric": metric, "kind": kind}
    return Hypothesis(**{**base, **arms, **choices})


def both(metric: str, sao: list, grpo: list) -> pd.DataFrame:
    return pd.concat([outcome_rows("sao", metric, sao), outcome_rows("grpo", metric, grpo)])


HIGH, LOW = [0.90, 0.92, 0.91, 0.93, 0.89], [0.50, 0.55, 0.52, 0.51, 0.50]


@pytest.mark.parametrize(
    ("sao", "grpo", "minimum", "verdict"),
    [
        (HIGH, LOW, 0.0, "supported"),
        (LOW, HIGH, 0.0, "contradicted"),
        (HIGH, [0.2, 1.0, 0.9, 0.1, 1.0], 0.0, "not separable"),
        (HIGH, LOW, 0.3, "supported"),
        (HIGH, LOW, 0.5, "contradicted"),  # better, but not by what was claimed
        (HIGH, LOW, 0.39, "not separable"),
    ],
)
def test_the_interval_against_what_was_claimed_decides(sao, grpo, minimum, verdict):
    assert judge(claim(minimum_difference=minimum), both("final_score", sao, grpo)).verdict == verdict


def test_the_paired_test_is_scipys():
    found = judge(claim(), both("final_score", HIGH, LOW))
    reference = stats.ttest_rel(HIGH, LOW)
    interval = reference.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))
    assert found.evidence.p_value == pytest.approx(reference.pvalue)
    assert found.evidence.n == "5 pairs of seeds"


@pytest.mark.parametrize(
    "asked",
    [
        claim(),
        claim("event_share", "collapsed", direction="lower"),
        claim("time_to_target", "hours_to_target", direction="lower"),
        Hypothesis(
            id="H",
            claim="c",
            source="ours",
            metric="boundary_exponent",
            kind="fitted",
            between=(0, 1),
            arms=("sao", "grpo"),
        ),
    ],
)
def test_an_arm_that_was_left_out_is_named_and_nothing_is_judged(asked):
    left = outcome_rows("sao", asked.metric, [1.0, 1.0, 1.0])
    found = judge(asked, left)
    assert found.verdict == "not run"
    assert found.evidence.n == "no run of grpo"
    assert math.isnan(found.evidence.p_value)
    assert verdict_rows([found])[["verdict", "note"]].values.tolist() == [["not run", ""]]
    none = judge(asked, left.iloc[:0])
    assert none.evidence.missing_arms == ("sao", "grpo")


def test_an_arm_that_ran_and_has_no_seed_in_common_is_not_called_left_out():
    apart = outcome_rows("grpo", "final_score", LOW).assign(seed=range(10, 15))
    found = judge(claim(), pd.concat([outcome_rows("sao", "final_score", HIGH), apart]))
    assert found.verdict == "not separable"
    assert found.evidence.n == "0 pairs of seeds"


def test_claims_that_were_not_run_have_no_part_in_holms_number():
    table = both("final_score", HIGH, LOW)
    others = [claim(id=f"N{n}", worse_arm=f"arm-{n}") for n in range(9)]
    alone, among = verdict_rows([judge(claim(), table)]), verdict_rows(judge_all([claim(), *others], table))
    assert among["p_holm"][0] == alone["p_holm"][0]


def test_lower_can_be_better():
    found = judge(claim(direction="lower", metric="trainer_idle"), both("trainer_idle", LOW, HIGH))
    assert found.verdict == "supported"
    assert found.interval.estimate == pytest.approx(np.mean(HIGH) - np.mean(LOW))


def test_pairs_are_matched_by_seed_not_by_row_and_what_is_left_out_is_counted():
    table = both("final_score", HIGH, [*LOW, 0.1])  # seed 5 ran in one arm only
    shuffled = table.sample(frac=1, random_state=1)
    one, two = judge(claim(), table), judge(claim(), shuffled)
    assert one.interval.estimate == pytest.approx(two.interval.estimate)
    assert one.evidence.n == "5 pairs of seeds"
    assert one.evidence.note == "1 seeds without a value in both arms"


@given(gains=st.lists(st.integers(-9, 9), min_size=1, max_size=8))
def test_turning_the_arms_round_turns_the_verdict_round(gains):
    table = both("final_score", [float(g) for g in gains], [0.0] * len(gains))
    swapped = claim(better_arm="grpo", worse_arm="sao")
    opposite = {"supported": "contradicted", "contradicted": "supported", "not separable": "not separable"}
    assert judge(swapped, table).verdict == opposite[judge(claim(), table).verdict]


def test_too_few_seeds_separate_nothing():
    verdicts = [judge(claim(), both("final_score", HIGH[:n], LOW[:n])).verdict for n in range(1, 4)]
    assert verdicts == ["not separable"] * 2 + ["supported"]
    two = judge(claim(), both("final_score", HIGH[:2], LOW[:2]))
    assert verdict_rows([two])["note"].tolist() == ["fewer than 3 seeds decide nothing"]


@pytest.mark.parametrize(
    ("sao", "grpo", "minimum", "verdict"),
    [
        (0, 8, 0.0, "supported"),
        (8, 0, 0.0, "contradicted"),
        (0, 3, 0.0, "not separable"),  # Fisher: p = .2
        (0, 4, 0.0, "not separable"),  # the interval starts at .07, but Fisher says p = .08
        (0, 0, 0.0, "not separable"),
        (0, 0, 0.6, "contradicted"),  # a difference of 60 points is ruled out
    ],
)
def test_collapses_are_counted_and_tested_exactly(sao, grpo, minimum, verdict):
    table = both("collapsed", [True] * sao + [False] * (8 - sao), [True] * grpo + [False] * (8 - grpo))
    found = judge(claim("event_share", "collapsed", direction="lower", minimum_difference=minimum), table)
    assert found.verdict == verdict
    assert found.evidence.n == f"{sao} of 8, {grpo} of 8"
    assert found.evidence.p_value == pytest.approx(stats.fisher_exact([[sao, 8 - sao], [grpo, 8 - grpo]])[1])


def test_seeds_that_never_reached_the_target_count_against_their_arm():
    # Left out, grpo's only seed in time would make it look faster than sao.
    table = both("hours_to_target", [3.0, 3.1, 3.2, 3.3, 3.1], [2.0, math.nan, math.nan, math.nan, math.nan])
    found = judge(claim("time_to_target", "hours_to_target", direction="lower"), table)
    assert found.evidence.n == "reached by 5 of 5, 1 of 5"
    # Restricted to the 10 h that every seed was watched: grpo needs 2, 10, 10, 10, 10.
    assert found.interval.estimate == pytest.approx((2 + 4 * 10) / 5 - np.mean([3.0, 3.1, 3.2, 3.3, 3.1]))
    reference = stats.logrank(
        stats.CensoredData(uncensored=[3.0, 3.1, 3.2, 3.3, 3.1]),
        stats.CensoredData(uncensored=[2.0], right=[10.0] * 4),
    )
    assert found.evidence.p_value == pytest.approx(reference.pvalue)


def test_a_faster_arm_is_supported_and_a_slower_one_contradicted():
    fast, slow = [1.0, 1.1, 1.2, 1.3, 1.2], [5.0, 5.1, math.nan, 5.2, math.nan]
    faster = claim("time_to_target", "hours_to_target", direction="lower")
    assert judge(faster, both("hours_to_target", fast, slow)).verdict == "supported"
    assert judge(faster, both("hours_to_target", slow, fast)).verdict == "contradicted"


def test_times_are_compared_only_as_far_as_every_seed_was_watched():
    table = pd.concat(
        [
            outcome_rows("sao", "hours_to_target", [1.0, 1.0, 2.0], hours=4.0),
            outcome_rows("grpo", "hours_to_target", [9.0, math.nan, 3.0], hours=20.0),
        ]
    )
    found = judge(claim("time_to_target", "hours_to_target", direction="lower"), table)
    assert found.interval.estimate == pytest.approx((3 + 3 + 1) / 3)  # 9 h and never both count as 4 h
    assert "up to 4 h" in found.evidence.note


def test_a_target_that_nobody_reached_separates_nothing_even_with_a_margin():
    never = [math.nan] * 5
    margin = claim("time_to_target", "hours_to_target", direction="lower", minimum_difference=1.0)
    assert judge(margin, both("hours_to_target", never, never)).verdict == "not separable"


@pytest.mark.parametrize(
    ("threshold", "verdict"), [(0.006, "supported"), (0.002, "contradicted"), (0.0042, "not separable")]
)
def test_a_share_stays_below_a_threshold_or_not(threshold, verdict):
    table = outcome_rows("sao", "masked_fraction", [0.0040, 0.0042, 0.0044, 0.0041])
    below = claim("threshold", "masked_fraction", direction="lower", threshold=threshold)
    found = judge(below, table)
    assert found.verdict == verdict
    assert found.interval.estimate == pytest.approx(threshold - 0.004175)  # by how much it stays below


def test_claims_about_nothing_are_refused():
    with pytest.raises(ValueError, match="no 'luck'"):
        judge(claim(metric="luck"), both("final_score", HIGH, LOW))
    with pytest.raises(ValueError, match="seed 0 twice"):
        judge(claim(), pd.concat([both("final_score", HIGH, LOW)] * 2))


def test_rows_state_what_was_needed_and_what_was_found():
    table = both("final_score", HIGH, LOW)
    rows = verdict_rows(judge_all([claim(), claim(id="H2", minimum_difference=0.5)], table))
    assert rows["verdict"].tolist() == ["supported", "contradicted"]
    assert rows["beyond"].tolist() == [0.0, 0.5]
    assert (rows["low"] < rows["estimate"]).all()


def test_false_support_is_as_rare_as_stated():
    # Two arms that do not differ: at 95 % one claim in forty is supported by chance, on one side.
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(300, 2, 6))
    verdicts = [judge(claim(), both("final_score", list(a), list(b))).verdict for a, b in drawn]
    wrong = sum(v == "supported" for v in verdicts)
    assert wrong <= stats.binom.ppf(0.9999, 300, 0.025)
    assert wrong >= stats.binom.ppf(0.0001, 300, 0.025)


@pytest.mark.parametrize(
    ("between", "verdict"),
    [((0.5, 1.5), "supported"), ((1.5, 2.5), "contradicted"), ((1.0, 2.0), "not separable")],
)
def test_a_fitted_quantity_lies_between_or_not(between, verdict):
    fitted = Hypothesis(
        id="F", claim="c", source="ours", metric="boundary_exponent", kind="fitted", between=between
    )
    found = judge(fitted, grid(np.random.default_rng(0), seeds=20))
    assert found.verdict == verdict
    assert math.isnan(found.evidence.p_value)
    assert verdict_rows([found])["between"].tolist() == [between]


def test_a_fit_that_cannot_be_had_or_has_two_seeds_decides_nothing():
    fitted = Hypothesis(
        id="F", claim="c", source="ours", metric="boundary_exponent", kind="fitted", between=(-9.0, 9.0)
    )
    assert judge(fitted, grid(np.random.default_rng(0), seeds=2)).verdict == "not separable"
    calm = grid(np.random.default_rng(0)).assign(collapsed=False)
    assert judge(fitted, calm).verdict == "not separable"
    assert "cannot be had" in judge(fitted, calm).note


def test_holms_steps_by_hand():
    # Sorted .01, .02, .03, times 3, 2, 1, never falling; what is undefined does not count.
    assert holm([0.03, math.nan, 0.01, 0.02]) == pytest.approx([0.04, math.nan, 0.03, 0.04], nan_ok=True)
    assert holm([0.9, 0.8]) == [1.0, 1.0]
