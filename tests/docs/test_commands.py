"""Every command and flag that a page names is there."""

import re
import shlex

import pytest

import policylag
from simulator.command_line import BadInputError
from tests.docs.pages import DOCS, PAGES, blocks, commands, prose
from tests.docs.parsers import PARSERS

HOW_TO = {page.stem: page.read_text(encoding="utf-8") for page in sorted((DOCS / "how-to").glob("*.md"))}
SHOWN = sorted(
    {
        line
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"), "shell")
        for line in block.splitlines()
        if line.startswith("policylag ")
    }
)
FLAG = re.compile(r"(?<![\w-])--[a-z][\w.-]*[a-z]")


def test_every_subcommand_has_a_page_and_a_parser_here():
    assert set(HOW_TO) == set(policylag.COMMANDS) == set(PARSERS)


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_that_is_not_run_is_accepted(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line, comments=True)
    PARSERS[words[1]](words[2:])


def test_a_word_that_is_no_field_is_not_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInputError):
        PARSERS["simulate"](["groups", "--no-such-field", "1"])


@pytest.mark.parametrize("name", sorted(HOW_TO))
def test_every_flag_in_the_prose_of_a_page_is_a_flag_of_its_command(name, capsys):
    named = set(FLAG.findall(prose(HOW_TO[name])))
    with pytest.raises(SystemExit, match="0"):
        policylag.main([name, *(["quick"] if name == "study" else []), "--help"])
    there = set(FLAG.findall(capsys.readouterr().out))
    in_commands = {flag for line in commands(HOW_TO[name]) for flag in FLAG.findall(line)}
    assert named <= there | in_commands, sorted(named - there - in_commands)


@pytest.mark.parametrize("name", sorted(HOW_TO))
def test_a_page_says_what_its_readers_look_for(name):
    titles = re.findall(r"^## (.*)$", HOW_TO[name], re.MULTILINE)
    assert {"An example", "Flags that matter", "Exit status", "Pitfalls"} <= set(titles)
    assert "echo $?" in HOW_TO[name]
    assert blocks(HOW_TO[name], "console")


def test_make_targets_that_pages_name_exist():
    makefile = (DOCS.parent / "Makefile").read_text(encoding="utf-8")
    named = {
        target
        for page in PAGES
        for target in re.findall(
            r"(?:`|^)make ([a-z][a-z-]*)", page.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert named
    assert not [target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)]
