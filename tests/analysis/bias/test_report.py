import itertools
import json
import math
import xml.etree.ElementTree as ET

import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.bias import report as bias_report
from analysis.bias.figure import by_lag, sweep_heat
from analysis.figures.style import looks

FLAT = dict.fromkeys(("cosine", "std_per_rollout", "masked", "clipped", "flat", "scale"), 0.25)


@pytest.fixture
def table() -> pd.DataFrame:
    """Biases 0 at lag 0; 0.1, 0.2, 0.3 in three worlds at lag 4."""
    return pd.DataFrame(
        [
            {"seed": 7, "into_batch": 1, "world": world, "estimator": name, "lag": lag}
            | {"drift": "ascent", "drift_nats": 0.02 * (lag > 0)}
            | {"relative_bias": 0.1 * (world + 1) * (lag > 0), "component": 1 - 0.5 * (lag > 0)}
            | FLAT
            for world in range(3)
            for name in ("sao", "a-name-of-more-than-twenty-letters")
            for lag in (0, 4)
        ]
    )


@pytest.fixture
def sweep() -> pd.DataFrame:
    """Relative bias is eps_low + eps_high / 100, the same in every world."""
    return pd.DataFrame(
        [
            {
                "world": world,
                "trust": trust,
                "eps_low": low,
                "eps_high": high,
                "lag": lag,
                "drift": "ascent",
                "drift_nats": 0.1,
            }
            | {"relative_bias": (low + high / 100) * (lag > 0), "component": 0.5}
            | FLAT
            for world, trust, low, high, lag in itertools.product(
                range(3), ("ppo-clip", "double-sided-mask"), (0.1, 0.3), (0.28, 1.0, 5.0), (0, 4)
            )
        ]
    )


def test_the_unit_of_an_interval_is_the_world(table: pd.DataFrame):
    row = bias_report.summary(table).set_index(["estimator", "lag"]).loc[("sao", 4)]
    # Standard error 0.1 / sqrt(3); t at 97.5 % with two degrees of freedom is 4.302653.
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert row.n == 3
    assert (row.relative_bias, row.relative_bias_low, row.relative_bias_high) == pytest.approx(
        (0.2, 0.2 - half, 0.2 + half), rel=1e-6
    )


def test_text_fits_a_terminal_and_says_n_drift_and_every_estimator(table, sweep):
    said = bias_report.text(table, sweep)
    assert max(map(len, said.splitlines())) <= 80
    assert "n = 3 worlds of seed 7\ndrift: ascent; updates made on the batch before: 1" in said
    assert "lag 4: the policies are 0.02 nats a token apart" in said
    assert "sao                  0.20 [-0.05, 0.45]" in said
    assert said.count("a-name-of-more-than-twenty-letters") == 2
    assert "ppo-clip, lag 4" in said
    assert "ppo-clip, lag 0" not in said  # nothing is outside any band
    assert "   0.3  0.30/0.50  0.31/0.50  0.35/0.50" in said


def test_json_is_one_object_of_finite_numbers_and_nulls(table, sweep):
    found = json.loads(bias_report.to_json(table, sweep))
    assert (found["worlds"], found["drift"]) == (3, "ascent")
    assert len(found["estimators"]) == 4
    assert len(found["sweep"]) == 24
    assert json.loads(bias_report.to_json(table))["sweep"] is None
    one_world = json.loads(bias_report.to_json(table[table.world == 0]))
    assert one_world["estimators"][0]["relative_bias_low"] is None


def test_files_are_every_row_and_a_figure_a_question(table, sweep):
    alone = bias_report.files(table)
    assert set(alone) == {
        "table.csv",
        "relative-bias-by-lag.svg",
        "component-by-lag.svg",
        "std-per-rollout-by-lag.svg",
    }
    assert alone["table.csv"].count("\n") == len(table) + 1
    both = bias_report.files(table, sweep)
    assert {
        f"{trust}-lag-4-{what}.svg"
        for trust in ("ppo-clip", "double-sided-mask")
        for what in ("relative-bias", "component")
    } <= set(both)
    assert not any("lag-0" in name for name in both)
    for name, text in both.items():
        if name.endswith(".svg"):
            assert ET.fromstring(text).tag.endswith("svg")
            assert 'style="background:#fff' in text
    assert both == bias_report.files(table, sweep)  # equal tables, equal bytes


def test_a_line_is_drawn_where_the_table_says(table: pd.DataFrame):
    axes = Figure().add_subplot()
    by_lag(bias_report.summary(table), axes, look=looks(list(table.estimator.unique())))
    assert axes.lines[0].get_xydata().tolist() == [[0, 0], [4, pytest.approx(0.2)]]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "4"]


def test_a_cell_of_the_heat_map_holds_its_own_number(sweep: pd.DataFrame):
    axes = Figure().add_subplot()
    swept = bias_report.summary(sweep, by=bias_report.BY_BAND, measures=bias_report.SWEPT)
    sweep_heat(swept, axes, trust="ppo-clip", lag=4)
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells[0.5, 0.5] == "0.10"  # eps_low 0.1, eps_high 0.28
    assert cells[2.5, 1.5] == "0.35"  # eps_low 0.3, eps_high 5
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.28", "1", "5"]
    assert axes.get_title(loc="left") == "ppo-clip, lag 4: relative bias (n = 3)"
