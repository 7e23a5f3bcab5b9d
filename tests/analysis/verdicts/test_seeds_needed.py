import math

import numpy as np
import pandas as pd
import pytest

from analysis.statistics.seeds import seeds_to_separate
from analysis.verdicts.judge import judge, verdict_rows
from simulator.studies.hypothesis import Hypothesis
from tests.analysis.factories import outcome_rows
from tests.analysis.worlds import grid

GAINS = np.array([0.3, -0.1, 0.2, 0.1])


def claim(kind: str = "paired_difference", metric: str = "final_score", **choices) -> Hypothesis:
    arms = {"better_arm": "sao", "worse_arm": "grpo"}
    return Hypothesis(
        **{"id": "H", "claim": "c", "source": "ours", "metric": metric, "kind": kind, **arms, **choices}
    )


def both(metric: str, sao, grpo) -> pd.DataFrame:
    return pd.concat([outcome_rows("sao", metric, sao), outcome_rows("grpo", metric, grpo)])


def test_a_mean_needs_what_its_spread_and_size_say():
    found = judge(claim(), both("final_score", GAINS, np.zeros(4)))
    assert found.verdict == "not separable"
    needed = seeds_to_separate(0.125, float(GAINS.std(ddof=1)))
    assert found.seeds_needed == needed == 17
    assert found.note == "about 17 seeds would separate one as large as was seen (power 80%); n was 4"
    assert verdict_rows([found])["seeds_needed"].tolist() == [17]


def test_so_many_seeds_of_the_same_kind_do_decide_it_four_times_in_five():
    rng = np.random.default_rng(0)
    needed = int(judge(claim(), both("final_score", GAINS, np.zeros(4))).seeds_needed)
    gains = rng.normal(0.125, GAINS.std(ddof=1), size=(100, needed))
    decided = sum(judge(claim(), both("final_score", own, 0 * own)).verdict == "supported" for own in gains)
    assert 68 <= decided <= 92  # three standard errors


def test_what_is_claimed_to_matter_is_what_has_to_be_cleared():
    far = judge(claim(minimum_difference=0.12), both("final_score", GAINS, np.zeros(4)))
    assert far.seeds_needed > 1000
    assert far.note.startswith("more than 1,000 seeds")
    at = judge(claim(minimum_difference=0.125), both("final_score", GAINS, np.zeros(4)))
    assert at.note.startswith("no number of seeds") == math.isinf(at.seeds_needed)


def test_shares_need_what_fishers_test_needs():
    table = both("collapsed", [False] * 4, [True, True, False, False])
    found = judge(claim("event_share", "collapsed", direction="lower"), table)
    assert found.verdict == "not separable"
    assert 8 <= found.seeds_needed <= 15
    none = judge(
        claim("event_share", "collapsed", direction="lower"), both("collapsed", [False] * 4, [False] * 4)
    )
    assert none.note == "no number of seeds separates the difference seen at n = 4: it is all but none"


@pytest.mark.parametrize("between", [(0.5, 1.01), (1.05, 2.0)])
def test_a_fit_needs_an_interval_that_is_narrow_enough(between):
    fitted = Hypothesis(
        id="F", claim="c", source="ours", metric="boundary_exponent", kind="fitted", between=between
    )
    found = judge(fitted, grid(np.random.default_rng(0), seeds=8))
    assert found.verdict == "not separable"
    assert found.seeds_needed > 8


def test_what_is_decided_or_has_too_few_seeds_says_nothing_of_more():
    clear = judge(claim(), both("final_score", GAINS + 5, np.zeros(4)))
    assert math.isnan(clear.seeds_needed)
    assert clear.note == ""
    two = judge(claim(), both("final_score", GAINS[:2], np.zeros(2)))
    assert two.note == "fewer than 3 seeds decide nothing"
    nothing = judge(claim(), both("final_score", [math.nan] * 4, np.zeros(4)))
    assert math.isnan(nothing.seeds_needed)
