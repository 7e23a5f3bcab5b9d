from __future__ import annotations

import pandas as pd
import pytest

from analysis.tables.fates import shares_of_fates


def test_every_run_has_one_end_and_the_intervals_are_wilsons():
    fates = ["collapsed"] * 3 + ["stalled"] + ["not measured"]
    table = shares_of_fates(pd.DataFrame({"arm": "a", "fate": fates})).set_index("fate")
    assert table["events"].to_dict() == {
        "collapsed": 3,
        "stalled": 1,
        "reached target": 0,
        "still learning": 0,
    }
    assert table["share"].sum() == 1
    # Wilson for 0 of 4: upper bound z^2 / (n + z^2).
    z = 1.959964
    assert table.loc["still learning", "high"] == pytest.approx(z**2 / (4 + z**2))
