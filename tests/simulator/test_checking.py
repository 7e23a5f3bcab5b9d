"""What `policylag check` loads, what it refuses and in which words, and what it prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.checking import Checking, answer, ask, load, show
from simulator.command_line import BadInputError

MINE = """
print("imported")
from algorithms.grpo import grpo
from algorithms.sao import sao
READY = sao()
THREE = 3

def mean_loss(log_probs, old_log_probs, advantages, mask):
    return -((log_probs - old_log_probs).exp() * advantages * mask).mean()

def verl(old_log_prob, log_prob, advantages, response_mask):
    return 0

def crash():
    raise RuntimeError("first\\nsecond")

def three():
    return 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own, where the command is run."""
    (tmp_path / "checked_by_test.py").write_text(MINE)
    (tmp_path / "unfinished.py").write_text("import nowhere")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("checked_by_test", "unfinished"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "target must be MODULE:ATTR"),
        (["module"], "got 'module'"),
        (["module:"], "got 'module:'"),
        ([":grpo"], "got ':grpo'"),
        (["m:f", "--examples", "0"], "examples must be at least 1, got 0"),
        (["m:f", "--examples", "many"], "many"),
        (["m:f", "--bogus"], "--bogus"),
        (["m:f", "--shortest", "5"], "needs 1 <= shortest <= longest, got 5 and 4"),
        (["m:f", "--shortest", "0"], "needs 1 <= shortest <= longest, got 0 and 4"),
    ],
)
def test_words_that_make_no_question_are_refused_in_one_line(words: list[str], said: str):
    with pytest.raises(BadInputError) as refused:
        ask(words)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_words_become_a_question():
    assert ask(["m:f"]) == Checking(target="m:f")
    assert ask(["--json", "a/b.py:f", "--examples", "7"]) == Checking("a/b.py:f", examples=7, json=True)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("not_there:f", "cannot import not_there: ModuleNotFoundError: No module named 'not_there'"),
        (
            "unfinished:f",
            "cannot import unfinished: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("unfinished.py:f", "cannot import unfinished.py: ModuleNotFoundError"),
        ("not/there.py:f", "no file not/there.py"),
        ("checked_by_test:absent", "no 'absent'; there are grpo, sao, READY, THREE, mean_loss"),
        ("checked_by_test:THREE", "needs an Estimator or a loss function, got an int"),
        ("checked_by_test:verl", "a loss function takes (log_probs, old_log_probs, advantages, mask)"),
        ("checked_by_test:crash", "checked_by_test:crash() failed: RuntimeError: first second"),
        ("checked_by_test:three", "must return an Estimator, got int"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_one_line(target: str, said: str):
    with pytest.raises(BadInputError) as refused:
        load(target)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("place", ["checked_by_test", "checked_by_test.py", "./checked_by_test.py"])
@pytest.mark.parametrize("attribute", ["grpo", "READY"])
def test_an_estimator_that_obeys_is_ok_in_every_line(
    place: str, attribute: str, capsys: pytest.CaptureFixture[str]
):
    asked = Checking(f"{place}:{attribute}", examples=1)
    verdicts = answer(asked)
    assert all(verdict.holds for verdict in verdicts)
    assert all(line.startswith("ok ") for line in show(verdicts, asked).splitlines())
    assert capsys.readouterr().out == ""


def test_what_refuses_short_rollouts_is_tried_on_long_ones():
    asked = Checking("algorithms.vapo:vapo", examples=2)
    assert all("refused all 2 batches" in verdict.why for verdict in answer(asked))
    long = Checking("algorithms.vapo:vapo", examples=2, shortest=20, longest=24)
    assert all(verdict.holds for verdict in answer(long))


def test_a_loss_that_fails_says_so_in_text_and_in_json_and_leaves_nothing_behind(mine: Path):
    before = sorted(path.name for path in mine.iterdir())
    asked = Checking("checked_by_test:mean_loss", examples=20, json=True)
    verdicts = answer(asked)
    text = show(verdicts, Checking(asked.target))
    assert "FAILS nan_is_inert" in text
    assert "got      nan" in text
    failed = json.loads(show(verdicts, asked), parse_constant=pytest.fail)
    assert failed["holds"] is False
    assert [law["law"] for law in failed["laws"] if not law["holds"]] == [
        "nan_is_inert", "padding_is_inert", "shards_add_up", "extreme_ratios_stay_finite"
    ]  # fmt: skip
    assert failed["laws"][0]["counterexample"]["got"] == "nan"
    assert sorted(path.name for path in mine.iterdir() if path.name != "__pycache__") == before


def test_without_hypothesis_one_line_says_what_to_install():
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from simulator.checking import Checking, answer\n"
        "from simulator.command_line import BadInputError\n"
        "try: answer(Checking('algorithms.grpo:grpo'))\n"
        "except BadInputError as bad: print(bad)\n"
    )
    root = Path(__file__).resolve().parents[2]
    said = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert said.stdout == "check: needs hypothesis, not installed here: pip install hypothesis\n"
