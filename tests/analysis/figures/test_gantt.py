import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.figures.gantt import chart, gantt, last_batches
from analysis.figures.style import svg


def intervals() -> pd.DataFrame:
    """A trainer, a critic, an engine as a whole, and three slots of each of two engines."""
    rows = [
        ("engine-1/slot-10", "busy", "decode", 0.0, 8.0),
        ("trainer", "busy", "policy_update", 0.0, 4.0),
        ("trainer", "idle", "no_batch", 4.0, None),
        ("critic", "idle", None, 0.0, 10.0),
        ("engine-0", "idle", "sync", 2.0, 3.0),
    ]
    rows += [(f"engine-{e}/slot-{s}", "idle", "kv_full", 8.0, 9.0) for e in (0, 1) for s in (2, 9, 10)]
    return pd.DataFrame(rows, columns=["resource", "state", "cause", "start_s", "end_s"])


UPDATES = pd.DataFrame({"train_end_s": [1.0, 4.0, 9.0, 12.0], "published_s": [1.0, 4.5, 9.5, np.nan]})


def test_the_trainer_is_first_and_slots_are_in_the_order_of_their_numbers():
    drawn = chart(intervals(), UPDATES, window_s=(0.0, 10.0))
    assert drawn.rows == (
        "trainer", "critic", "engine-0",
        "engine-0/slot-2", "engine-0/slot-9", "engine-0/slot-10",
        "engine-1/slot-2", "engine-1/slot-9", "engine-1/slot-10",
    )  # fmt: skip
    assert drawn.left_out == 0


def test_bars_are_clipped_to_the_window_and_what_is_open_ends_with_it():
    drawn = chart(intervals(), UPDATES, window_s=(2.0, 8.5))
    spans = {
        (bar.resource, bar.cause): (bar.start_s, bar.end_s) for bar in drawn.bars.itertuples(index=False)
    }
    assert spans["trainer", "policy_update"] == (2.0, 4.0)
    assert spans["trainer", "no_batch"] == (4.0, 8.5)
    assert spans["critic", "unaccounted"] == (2.0, 8.5)
    assert spans["engine-1/slot-2", "kv_full"] == (8.0, 8.5)
    assert drawn.pushes_s == (4.5,)


def test_few_rows_are_picked_from_all_engines_and_the_others_counted():
    drawn = chart(intervals(), UPDATES, window_s=(0.0, 10.0), rows=4)
    assert drawn.rows == ("trainer", "critic", "engine-0", "engine-1/slot-10")
    assert drawn.left_out == 5
    assert set(drawn.bars["resource"]) == set(drawn.rows)
    axes = Figure().add_subplot()
    gantt(drawn, axes)
    assert axes.get_title(loc="right") == "5 more engines or slots not drawn"


def test_every_state_and_cause_has_a_name_and_idle_causes_differ_without_colour():
    axes = Figure().add_subplot()
    gantt(chart(intervals(), UPDATES, window_s=(0.0, 10.0)), axes)
    names = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert names == [
        "decode", "policy update", "idle: kv full", "idle: no batch", "idle: sync", "idle: unaccounted",
    ]  # fmt: skip
    hatches = [patch.get_hatch() for patch in axes.figure.legends[0].get_patches()]
    assert hatches[:2] == [None, None]
    assert len(set(hatches[2:])) == 4
    assert all(hatches[2:])


def test_a_window_without_any_work_is_still_a_picture():
    drawn = chart(intervals().iloc[:1], UPDATES, window_s=(50.0, 60.0))
    assert drawn.bars.empty
    assert "<svg" in svg(lambda axes: gantt(drawn, axes), name="empty")


def test_the_last_batches_end_where_weights_were_published_or_training_ended():
    assert last_batches(UPDATES, batches=2) == (4.5, 12.0)
    assert last_batches(UPDATES, batches=9) == (0.0, 12.0)
    with pytest.raises(ValueError, match="without an update"):
        last_batches(UPDATES.iloc[:0])
