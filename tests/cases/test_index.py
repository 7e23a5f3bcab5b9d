"""Every case of the table in README.md has a test, and every test that it names is there and says so."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
CASE = re.compile(r"\| ([ABD]\d\d) \|")


def indexed() -> set[tuple[str, str, str]]:
    """(case, file, test) of the table."""
    lines = (HERE / "README.md").read_text().splitlines()
    return {
        (case[1], file, name)
        for line in lines
        if (case := CASE.match(line))
        for file, name in re.findall(r"`([\w/]+\.py)::(\w+)`", line)
    }


def written() -> set[tuple[str, str, str]]:
    """The same of all tests whose name, docstring or comments give a case."""
    tests = HERE.parent
    found = set()
    for path in tests.rglob("test_*.py"):
        text = path.read_text()
        lines, file = text.splitlines(), path.relative_to(tests).as_posix()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                by_name = re.findall(r"(?<![a-z0-9])([abd]\d\d)(?=_)", node.name)
                by_text = re.findall(r"\b[ABD]\d\d\b", "\n".join(lines[node.lineno : node.end_lineno]))
                found |= {(case.upper(), file, node.name) for case in (*by_name, *by_text)}
    return found


def test_the_table_is_true():
    assert indexed() <= written()


def test_every_case_has_a_test():
    lines = (HERE / "README.md").read_text().splitlines()
    assert {case[1] for line in lines if (case := CASE.match(line))} == {case for case, _, _ in indexed()}
