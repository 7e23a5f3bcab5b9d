"""What is kept of a notebook, and what `python -m notebooks` does with bad words and failing cells."""

import base64
import io
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat import v4
from PIL import Image, ImageChops

from notebooks import __main__ as command
from notebooks.execution import COLOURS, WIDGET, executed, kept, said, written


def notebook(*sources: str) -> nbformat.NotebookNode:
    return v4.new_notebook(cells=[v4.new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)])


def test_a_clean_kernel_starts_in_the_folder_it_is_given(tmp_path: Path) -> None:
    run = executed(
        notebook("print('a')", "import os; print('b', flush=True); print(len(os.listdir()))\n3"), tmp_path
    )
    assert said(run) == [["stdout: a\n"], ["stdout: b\n0\n", "text/plain: 3"]]
    assert written(run) == written(executed(run, tmp_path))


def test_what_is_said_does_not_depend_on_the_order_of_a_file() -> None:
    run = notebook("table")
    run.cells[0].outputs = [v4.new_output("display_data", {"text/plain": "a", "text/html": "<b>a</b>"})]
    assert said(nbformat.reads(written(run), as_version=4)) == said(run)


def test_a_cell_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="1 != 2"):
        executed(notebook("assert 1 == 2, '1 != 2'"), tmp_path)


def test_widgets_and_timings_are_not_kept() -> None:
    run = notebook("slider", "1")
    run.cells[0].metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00"}
    run.cells[0].outputs = [
        v4.new_output("display_data", {WIDGET: {"model_id": "abc"}, "text/plain": "interactive()"}),
        v4.new_output("display_data", {"text/plain": "kept"}),
    ]
    run.metadata["widgets"] = {"abc": {}}
    assert said(kept(run)) == [["text/plain: kept"], []]
    assert "abc" not in written(kept(run))
    assert "2026" not in written(kept(run))


def test_pictures_are_kept_with_few_colours() -> None:
    made = io.BytesIO()
    shades = Image.linear_gradient("L").resize((300, 200)).convert("RGB")
    shades.save(made, "png")
    run = notebook("picture")
    png = base64.b64encode(made.getvalue()).decode()
    run.cells[0].outputs = [v4.new_output("display_data", {"image/png": png, "text/plain": "picture"})]
    once = kept(run)
    picture = Image.open(io.BytesIO(base64.b64decode(once.cells[0].outputs[0].data["image/png"])))
    assert picture.size == (300, 200)
    assert len(picture.getcolors()) == COLOURS
    off = ImageChops.difference(picture.convert("RGB"), shades).getextrema()
    assert max(high for _, high in off) <= 256 / COLOURS
    assert written(kept(once)) == written(once)


def test_an_unknown_notebook_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["99"]) == 2
    assert command.main([""]) == 2
    said_lines = capsys.readouterr().err.splitlines()
    assert len(said_lines) == 2
    assert said_lines[0].startswith("notebooks: no notebook '99'; there are")


def test_a_failing_notebook_stays_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = tmp_path / "01_bad.ipynb", tmp_path / "02_good.ipynb"
    bad.write_text(written(notebook("assert False, 'not so'")), encoding="utf-8")
    good.write_text(written(notebook("6 * 7")), encoding="utf-8")
    before = bad.read_bytes()
    assert command.main([], tmp_path) == 1
    assert bad.read_bytes() == before
    assert "42" in good.read_text(encoding="utf-8")
    assert "not so" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["01_bad.ipynb", "02_good.ipynb"]
