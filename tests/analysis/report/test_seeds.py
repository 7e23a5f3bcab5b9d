import math

import numpy as np
import pandas as pd
import pytest

from analysis.report.seeds import seeds_table, seeds_text
from analysis.statistics.intervals import t_interval
from tests.analysis.factories import outcome_rows

TABLE = pd.concat(
    [
        outcome_rows("grpo", "final_score", [0.5, 0.6, 0.7, 0.8]),
        outcome_rows("sao", "final_score", [0.6, 0.7, 0.8, 0.9]),
        outcome_rows("lone", "final_score", [0.6]),
    ]
)


def test_an_arm_has_its_t_interval_and_needs_seeds_for_a_narrower_one():
    table = seeds_table(TABLE, 0.05)
    interval = t_interval([0.5, 0.6, 0.7, 0.8])[0]
    assert table.loc["grpo", "half_width"] == pytest.approx(interval.high - interval.estimate)
    # Spread .1291: 1.96 x .1291 / .05 = 5.06, squared 25.6, and a little more for t.
    assert 26 <= table.loc["grpo", "needed"] <= 29
    assert seeds_table(TABLE, 0.21).loc["grpo", "needed"] == 4


def test_pairs_that_differ_by_the_same_need_hardly_any():
    assert seeds_table(TABLE, 0.01).loc["sao - grpo", "needed"] == 2
    assert math.isnan(seeds_table(TABLE, 0.01).loc["lone - grpo", "needed"])


def test_a_line_each_and_words_where_there_is_no_number():
    lines = seeds_text(TABLE, 0.21).splitlines()
    assert len(lines) == 1 + 5
    assert lines[1] == "grpo         4 for +-0.21; n = 4 gives +-0.205"
    assert lines[3] == "lone         unknown for +-0.21; n = 1 gives no interval"
    nothing = seeds_text(TABLE.assign(final_score=np.nan), 0.1)
    assert "unknown for +-0.1; n = 0" in nothing
