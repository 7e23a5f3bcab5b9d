import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.figures import one_run as run_figures
from analysis.measures.lag_split import PARTS
from analysis.measures.levels import level


@pytest.fixture
def axes():
    return Figure().add_subplot()


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.figure.legends[0].get_texts()]


def split(*rows: tuple[int, int, int, int]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(PARTS))
    return table.assign(lag=table.sum(axis=1))


def bars(axes) -> dict[str, list[float]]:
    return {
        container.get_label(): [bar.get_height() for bar in container.patches]
        for container in axes.containers
    }


def test_bars_are_shares_of_rollouts_in_the_proportions_of_the_parts(axes):
    # Of 4: one has no lag, one 1 of the queue; of two at lag 2, 3 updates are generation and 1 group wait.
    run_figures.split_histogram(split((0, 0, 0, 0), (0, 0, 1, 0), (2, 0, 0, 0), (1, 1, 0, 0)), axes)
    assert bars(axes) == {
        "generation": [0, 0, 0.375],
        "group wait": [0, 0, 0.125],
        "queue": [0, 0.25, 0],
        "trainer ahead": [0, 0, 0],
        "no lag": [0.25, 0, 0],
    }


def test_wide_lags_share_bins_and_none_is_lost(axes):
    run_figures.split_histogram(split(*((lag, 0, 0, 0) for lag in range(200))), axes)
    assert sum(map(sum, bars(axes).values())) == pytest.approx(1.0)
    assert "in bins of 5" in axes.get_xlabel()


def test_each_row_of_lags_is_drawn_at_its_numbers_and_empty_ones_are_not(axes):
    table = pd.DataFrame(
        {
            "population": ["trained", "trained", "dropped"],
            "weighting": ["rollout", "token", "token"],
            "n": [5, 9, 0],
            "mean": [1.0, 2.0, np.nan],
            "p50": [1.0, 1.0, np.nan],
            "p99": [3.0, 4.0, np.nan],
        }
    )
    run_figures.lag_ranges(table, axes)
    assert legend(axes) == ["trained"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rollout", "token"]
    (means,) = [line for line in axes.lines if line.get_label() == "trained"]
    assert means.get_xydata().tolist() == [[1.0, 0.0], [2.0, 1.0]]
    (ranges,) = axes.collections
    assert [segment.tolist() for segment in ranges.get_segments()] == [[[1, 0], [3, 0]], [[1, 1], [4, 1]]]


def test_occupancy_carries_over_the_cut_and_says_the_mean_over_time(axes):
    inside = level(np.array([0.0, 3600.0]), np.array([7200.0, np.nan]))
    run_figures.occupancy({"queue": inside}, axes, window_s=(1800.0, 5400.0))
    (line,) = axes.lines
    assert line.get_xydata().tolist() == [[0.5, 1], [1.0, 2], [1.5, 2]]
    assert legend(axes) == ["queue (mean 1.5)"]


def test_long_runs_are_drawn_at_few_moments(axes):
    times = np.arange(10_000, dtype=float)
    run_figures.occupancy({"queue": level(times, times + 0.5)}, axes, window_s=(0.0, 10_000.0))
    assert len(axes.lines[0].get_xdata()) == run_figures.POINTS + 1


def test_engines_hold_a_version_from_when_it_was_published(axes):
    updates = pd.DataFrame(
        {"version": [1, 2], "train_end_s": [900.0, 1800.0], "published_s": [2700.0, 2700.0]}
    )
    run_figures.versions(updates, axes, window_s=(0.0, 3600.0))
    trainer, engines = axes.lines
    assert trainer.get_xydata().tolist() == [[0, 0], [0.25, 1], [0.5, 2], [1, 2]]
    assert engines.get_xydata()[-1].tolist() == [1, 2]
    assert engines.get_ydata()[0] == 0
    assert set(engines.get_xdata()) == {0, 0.75, 1}


def test_length_curves_reach_every_share_and_say_what_a_log_axis_hides(axes):
    lengths = {
        "generated": np.array([0.0, 1, 10, 100]),
        "trained": np.array([1.0, 10]),
        "dropped": np.array([]),
    }
    run_figures.length_curves(lengths, axes)
    generated, trained = axes.lines
    assert generated.get_xydata().tolist() == [[1, 0.5], [10, 0.75], [100, 1.0]]
    assert trained.get_xydata().tolist() == [[1, 0.5], [10, 1.0]]
    assert [text.get_text() for text in axes.texts] == ["1 of length 0 not drawn"]
    assert axes.get_xscale() == "log"
    assert legend(axes) == ["generated (mean 28)", "trained (mean 6)"]
