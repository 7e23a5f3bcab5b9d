import numpy as np
import pandas as pd
import pytest

from analysis.tables.masks import masks_by_sign
from analysis.tables.means import in_words
from analysis.tables.ratio_tail import tail_table

RNG = np.random.default_rng(0)
OUTCOMES = pd.DataFrame({"arm": ["a", "a", "b"], "seed": [0, 1, 0], "lag": [4, 4, 8], "eps": 0.2})


def updates(**columns: list[float]) -> pd.DataFrame:
    """Two updates a run, of 10 and 30 tokens."""
    runs = OUTCOMES[["arm", "seed"]].loc[np.repeat(OUTCOMES.index, 2)].reset_index(drop=True)
    return runs.assign(tokens=[10, 30] * 3, **columns)


def test_masked_shares_are_means_over_tokens_then_over_seeds():
    seen = updates(
        masked_positive_fraction=[0.4, 0.0, 0.0, 0.0, 0.1, 0.1],
        masked_negative_fraction=[0.0, 0.4, np.nan, 0.2, np.nan, np.nan],
    )
    table = masks_by_sign(seen, OUTCOMES, x="lag", y="eps", of="masked", rng=RNG).set_index(["x", "sign"])
    assert table.loc[(4, "positive"), "mean"] == pytest.approx((0.1 + 0) / 2)
    assert table.loc[(4, "negative"), "mean"] == pytest.approx((0.3 + 0.2) / 2)
    assert table.loc[(4, "negative"), "n"] == 2
    assert (8, "negative") not in table.index  # nothing is known of it
    assert np.isnan(table.loc[(8, "positive"), "low"])


def test_without_signs_in_the_log_a_share_is_of_all():
    table = masks_by_sign(
        updates(clipped_fraction=[0.1] * 6), OUTCOMES, x="lag", y="eps", of="clipped", rng=RNG
    )
    assert set(table["sign"]) == {"all"}
    assert table["mean"].tolist() == pytest.approx([0.1, 0.1])


def test_quantiles_are_averaged_over_tokens_then_over_seeds():
    quantiles = {f"log_ratio_{name}": [0.1, 0.2] * 3 for name in ("p50", "p90", "p99")}
    seen = updates(log_ratio_p99_9=[1.0, 2.0, 3.0, 3.0, np.nan, np.nan], **quantiles)
    table = tail_table(seen, OUTCOMES, line="arm", rng=RNG).set_index(["line", "beyond"])
    assert table.loc[("a", 0.5), "mean"] == pytest.approx(0.175)
    assert table.loc[("a", 0.001), "mean"] == pytest.approx((1.75 + 3.0) / 2)
    assert ("b", 0.001) not in table.index
    assert len(tail_table(updates(), OUTCOMES, line="arm", rng=RNG)) == 0


def test_an_estimate_without_an_interval_stands_alone():
    assert in_words(0.5, 0.4, 0.6) == "0.5 [0.4, 0.6]"
    assert in_words(0.5, np.nan, np.nan) == "0.5"
