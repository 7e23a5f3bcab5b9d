import io
import re

import pytest
from rich.console import Console

from full_runs.screen import Bar, numbers, screen

SEEN = {"reward": 0.25, "k3": 0.0123456, "steps": 7.0}


def terminal(width: int) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, height=10, color_system=None, _environ={}
    )


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_numbers_have_an_order_and_what_is_not_there_is_left_out() -> None:
    assert numbers({"push_s": 2.0, "reward": 0.25, "unknown": 1.0}) == "reward 0.25  push_s 2"


@pytest.mark.parametrize(
    "console",
    [
        Console(file=io.StringIO(), width=20, _environ={}),
        Console(file=io.StringIO(), width=20, force_terminal=True, _environ={"TERM": "dumb"}),
    ],
    ids=["file", "dumb"],
)
def test_where_nothing_can_be_redrawn_each_thing_is_a_line_that_is_not_cut(console: Console) -> None:
    with screen(9, silent=False, console=console) as on:
        on.say("engine [bold]0[/bold] :smile: " + "x" * 60)
        on.told(3, SEEN)
    assert written(console).splitlines() == [
        "engine [bold]0[/bold] :smile: " + "x" * 60,
        "3 of 9 updates  reward 0.25  k3 0.0123",
    ]


def test_silence() -> None:
    console = terminal(80)
    with screen(9, silent=True, console=console) as on:
        on.say("a word")
        on.told(1, SEEN)
    assert written(console) == ""


@pytest.mark.parametrize("width", [20, 80, 200])
def test_a_terminal_keeps_what_is_said_and_redraws_the_bar(width: int) -> None:
    console = terminal(width)
    with screen(9, silent=False, console=console) as on:
        on.say("an engine died")
        on.told(3, SEEN)
        console.file = io.StringIO()
    drawn = [re.sub(r"\x1b\[[0-9?;]*[A-Za-z]", "", line) for line in written(console).splitlines()]
    assert any("3/9" in line for line in drawn)
    assert any("reward 0.25" in line for line in drawn)
    assert max(map(len, drawn)) <= width


def test_time_left_counts_from_where_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    bar = Bar(110, terminal(100))

    def after(seconds: float, version: int) -> str:
        nonlocal now_s
        now_s += seconds
        bar.told(version, SEEN)
        page = terminal(100)
        page.print(bar.drawn())
        return written(page)

    # Starting took an hour; that says nothing of updates.
    assert "left" not in after(3600, 100)
    assert "90 s left" in after(10, 101)
    # The trainer died, and goes on from an older checkpoint.
    assert "left" not in after(600, 99)
    assert "50 s left" in after(5, 100)
