import pytest

from simulator.command_line import BadInputError
from simulator.exact.ask import ask


def test_what_is_not_said_has_a_default():
    asked = ask(["sao"])
    assert (asked.lags, asked.worlds, asked.seed, asked.sweep, asked.out) == (
        [0, 1, 4, 16],
        16,
        0,
        False,
        None,
    )
    assert list(asked.compositions) == ["sao"]


@pytest.mark.parametrize(
    "lags", [["--lags", "4", "0"], ["--lags", "4,0"], ["--lags=0,4"], ["--lags", "0,4,4"]]
)
def test_lags_come_with_spaces_or_commas_and_leave_sorted(lags: list[str]):
    assert ask(["sao", "grpo", *lags]).lags == [0, 4]


def test_names_are_written_with_either_sign_and_count_once():
    assert ask(["grpo_dis", "grpo-dis", "sao"]).estimators == ["grpo-dis", "sao"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "estimators?"),
        (["nobody", "sao"], r"bias: no estimator 'nobody'; there are grpo, .*grpo-behaviour-clip.*sao"),
        (["sao", "--lags", "-1"], "lags.*-1"),
        (["sao", "--lags=0,-2"], "lags must be 0 to 10000, got -2"),
        (["sao", "--lags", "99999"], "lags must be 0 to 10000, got 99999"),
        (["sao", "--lags"], "lags"),
        (["sao", "--lags", "often"], "often"),
        (["sao", "--worlds", "1"], "worlds must be 2 to 10000, got 1"),
        (["sao", "--seed", "-3"], "seed must be at least 0, got -3"),
        (["sao", "--drift", "sideways"], "sideways"),
        (["sao", "--lag", "3"], "lag"),
        (
            ["grpo", "vapo"],
            "bias: vapo is not made for responses of 2 tokens: alpha = 0.05 makes lambda = -9",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words: list[str], why: str):
    with pytest.raises(BadInputError, match=why) as bad:
        ask(words)
    assert "\n" not in str(bad.value)
    assert str(bad.value).startswith("bias: ")
