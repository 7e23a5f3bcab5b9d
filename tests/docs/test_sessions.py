"""What pages show of commands is what commands say."""

import pytest

from docs.tools import sessions

PAGES = {str(page.relative_to(sessions.DOCS)): page for page in sessions.pages()}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_shows_what_its_commands_say(name, tmp_path):
    """Numbers to a twentieth: other processors round otherwise. `make docs-sessions` writes them anew."""
    shown = PAGES[name].read_text(encoding="utf-8")
    said = sessions.run_again(shown, tmp_path)
    for before, now in zip(sessions.sessions(shown), sessions.sessions(said), strict=True):
        assert sessions.alike(before, now), f"{name} shows\n{before}\nand its commands say\n{now}"


@pytest.mark.parametrize(
    ("shown", "said", "alike"),
    [
        ("mean_lag  26.66", "mean_lag  26.7", True),
        ("mean_lag  26.66", "mean_lag  30", False),
        ("fate  collapsed", "fate  stalled", False),
        ("a  1\nb  2", "a  1", False),
        ("0.010", "0.025", True),
        ("1,000 rollouts", "1,600 rollouts", False),
    ],
)
def test_what_counts_as_the_same(shown, said, alike):
    assert sessions.alike(shown, said) is alike


def test_a_session_is_run_in_order_in_one_folder_with_its_files(tmp_path):
    page = '```text title="a.txt"\nb\na\n```\n\n```console\n$ sort a.txt > c.txt\n$ cat c.txt\nold\n```\n'
    assert sessions.run_again(page, tmp_path).endswith("$ sort a.txt > c.txt\n$ cat c.txt\na\nb\n```\n")


def test_a_status_and_what_was_wrong_are_shown(tmp_path):
    page = "```console\n$ policylag simulat; echo $?\n```\n"
    said = sessions.run_again(page, tmp_path)
    assert "no subcommand 'simulat'" in said
    assert said.endswith("\n2\n```\n")


def test_a_command_that_fails_unasked_is_no_example(tmp_path):
    with pytest.raises(RuntimeError, match="false failed"):
        sessions.run_again("```console\n$ false\n```\n", tmp_path)
