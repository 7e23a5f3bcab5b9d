"""Every notebook, run from a clean kernel somewhere else, says what its committed file says."""

import re
from pathlib import Path

import pytest

from notebooks.execution import FOLDER, code_cells, executed, kept, paths, read, said, written

NOTEBOOKS = paths()
MACHINE = re.compile(r"/(home|root|tmp|work|Users|opt|usr)/|[A-Z]:\\\\|\bat 0x[0-9a-f]{6,}|site-packages")
LARGEST_BYTES = 150 * 1024

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@every_notebook
def test_it_says_what_is_committed(path: Path, tmp_path: Path) -> None:
    committed = read(path)
    # In an empty folder: neither the checkout nor the notebooks' folder is where the kernel stands.
    assert said(executed(committed, tmp_path)) == said(committed)
    assert list(tmp_path.iterdir()) == []


@every_notebook
def test_it_was_run_once_from_top_to_bottom(path: Path) -> None:
    cells = code_cells(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    assert not [output for cell in cells for output in cell.outputs if output.get("name") == "stderr"]


@every_notebook
def test_its_file_is_in_the_kept_form_small_and_of_no_machine(path: Path) -> None:
    content = path.read_text(encoding="utf-8")
    assert content == written(kept(read(path)))
    assert len(content.encode()) <= LARGEST_BYTES
    assert MACHINE.search(content) is None


@every_notebook
def test_it_claims_something(path: Path) -> None:
    notebook = read(path)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith(f"# {path.stem[:2]} ")
    assert sum("assert " in cell.source for cell in code_cells(notebook)) >= 2


def test_numbers_are_consecutive_and_the_readme_lists_all() -> None:
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{i + 1:02}" for i in range(len(NOTEBOOKS))]
    listed = re.findall(r"\]\(([^)]+\.ipynb)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert listed == [path.name for path in NOTEBOOKS]
