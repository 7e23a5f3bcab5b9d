import pytest

from simulator.progress import duration, progress


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (99.4, "99 s"),
        (99.6, "2 min"),
        (5969, "99 min"),
        (6000, "1 h 40 min"),
        (172_000, "47 h 47 min"),
        (180_000, "2 d 2 h"),
    ],
)
def test_a_duration_is_said_in_what_a_reader_waits_in(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_what_was_done_before_counts_as_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.progress._SAY_EVERY_S", -1.0)
    with progress(4, "runs", silent=False, already=2) as advance:
        advance()
        advance()
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("3 of 4 runs, about ")
    assert last == "4 of 4 runs"


def test_nothing_is_said_where_nothing_is_left_or_nobody_wants_to_hear(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.progress._SAY_EVERY_S", -1.0)
    for total, silent, already in ((3, True, 0), (3, False, 3), (0, False, 0)):
        with progress(total, "runs", silent=silent, already=already) as advance:
            advance()
    assert capsys.readouterr().err == ""
