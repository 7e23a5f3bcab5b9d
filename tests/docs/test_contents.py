"""What pages are made of: modules, schemas, numbers of the log, rows of validate, formulas."""

import re
from pathlib import Path

import pytest

from docs.tools import accuracy, docstrings, formulas, includes, reference
from simulator.eventlog.schemas import EPISODES, SCHEMAS
from simulator.validation.ask import names_of_checks
from tests.docs.pages import DOCS, ROOT, prose

QUICK = ("constant_lengths", "aggregate_gate", "first_batches")


def test_every_public_module_is_on_exactly_one_page_of_the_reference():
    listed = [module for pages in reference.pages().values() for *_, modules in pages for module in modules]
    assert len(listed) == len(set(listed))
    there = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for package in reference.NAMES
        for file in (ROOT / package).rglob("*.py")
        if not file.name.startswith("_")
    }
    assert there <= set(listed), sorted(there - set(listed))
    gone = [module for module in listed if not _lies_at(module).exists()]
    assert gone == []


def _lies_at(module: str) -> Path:
    place = ROOT.joinpath(*module.split("."))
    return place if place.is_dir() else place.with_suffix(".py")


def test_every_column_of_the_event_log_is_in_its_table_with_its_comment():
    said = includes.schemas()
    for schema in (*SCHEMAS.values(), EPISODES):
        for field in schema:
            assert re.search(rf"^\| `{field.name}` \| {field.type} \|", said, re.MULTILINE)
    assert "| `submitted_s` | double | asked for: the admission rule let it in |" in said
    assert "trained \\| dropped" in said


def test_comments_are_read_beside_and_above(tmp_path):
    file = tmp_path / "schema.py"
    file.write_text('A = {\n    "a": 1,  # beside\n    # above\n    "b": 2,\n    "c": 3,\n}\n')
    assert includes.comments(file) == {"a": "beside", "b": "above"}


def test_numbers_of_the_science_page_are_in_the_log():
    """No new numbers: each stands in LOG.md or the README, whatever its sign and leading zero."""
    written = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("LOG.md", "README.md"))
    known = set(map(_plain, re.findall(r"\d*\.?\d+(?:e-\d+)?", written)))
    page = prose((DOCS / "science.md").read_text(encoding="utf-8"))
    found = re.findall(r"(?<![\w.])\d*\.?\d+(?:e-\d+)?", page)
    assert len(found) > 100
    assert [number for number in found if _plain(number) not in known] == []


def _plain(number: str) -> str:
    return number.lstrip("0") or "0"


def test_the_kept_rows_are_those_of_checks_and_hold():
    kept = accuracy.kept()
    assert set(QUICK) <= set(kept) <= set(names_of_checks())
    assert all(kept.values())
    assert all(row["holds"] for rows in kept.values() for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_check_gives_the_kept_rows(name):
    """`make docs-accuracy` writes them anew."""
    kept, now = accuracy.kept()[name], accuracy.rows_of(name)
    assert [row["about"] for row in now] == [row["about"] for row in kept]
    for before, after in zip(kept, now, strict=True):
        assert after["holds"] == before["holds"]
        assert after["expected"] == pytest.approx(before["expected"], rel=1e-6)
        assert after["simulated"] == pytest.approx(before["simulated"], rel=1e-6)


def test_the_accuracy_page_counts_its_rows_and_names_what_it_lacks():
    kept, said = accuracy.kept(), accuracy.page()
    rows = sum(map(len, kept.values()))
    assert said.startswith(f"{rows} rows from {len(kept)} checks, none of them fail.")
    assert said.count("| ok |") == rows
    assert all((f"`{name}`" in said) is (name not in kept) for name in names_of_checks())


def test_a_catalogues_names_lead_to_the_reference():
    said = includes.estimators()
    assert "[grpo_dis][algorithms.grpo.grpo_dis]" in said
    assert "[rollout.py][algorithms.rollout]" in said
    assert "](" not in said


def test_formulas_become_mathml_with_their_source_as_words():
    page = (
        r'<p><span class="arithmatex">\(\rho &lt; 1\)</span></p><div class="arithmatex">\[\frac{a}{b}\]</div>'
    )
    drawn = formulas.drawn(page)
    assert "arithmatex" not in drawn
    assert '<math alttext="\\rho &lt; 1"' in drawn
    assert "<mfrac>" in drawn
    assert 'display="block"' in drawn


def test_brackets_of_a_stated_size_grow_with_what_they_hold():
    drawn = formulas.drawn(r'<span class="arithmatex">\(\Bigl\{ \frac{a}{b} \Bigr\}\)</span>')
    assert drawn.count('stretchy="true"') == 2


def test_a_formula_that_is_none_is_named():
    with pytest.raises(ValueError, match="cannot be drawn"):
        formulas.drawn(r'<span class="arithmatex">\(\nosuchcommand a\)</span>')


@pytest.mark.parametrize(
    ("docstring", "markdown"),
    [
        ("A :math:`x` here.", "A $x$ here."),
        (".. math:: a + b\n\nRest.", "\n$$\na + b\n$$\n\n\nRest."),
        (".. math::\n\n    a\n    + b\n\nRest.", "\n$$\na + b\n$$\n\n\nRest."),
        ("No formula.", "No formula."),
    ],
)
def test_formulas_of_docstrings_become_markdown(docstring, markdown):
    assert docstrings.in_markdown(docstring) == markdown


def test_an_include_that_is_none_is_an_error():
    with pytest.raises(KeyError, match="nothing"):
        includes.filled("<!-- include: nothing -->")
