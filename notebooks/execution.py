"""What does a notebook say when it is run from a clean kernel, and how is it kept?

A kept notebook is a function of its source: no times, no versions of Python, no widgets' random names. So a
difference in the file is a difference in what it says.
"""

from __future__ import annotations

import base64
import copy
import io
import os
import tempfile
from pathlib import Path
from typing import Any, Final

import matplotlib.font_manager  # noqa: F401 - makes its cache here, or the first kernel would tell of it
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

FOLDER: Final = Path(__file__).resolve().parent
LIMIT_S: Final = 600
"""Of one cell: a notebook takes seconds, but machines may be busy."""
START_LIMIT_S: Final = 180
METADATA: Final = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"},
}
COLOURS: Final = 32
WIDGET: Final = "application/vnd.jupyter.widget-view+json"


def paths(folder: Path = FOLDER) -> list[Path]:
    """The notebooks, in their order."""
    return sorted(folder.glob("[0-9][0-9]_*.ipynb"))


def read(path: Path) -> NotebookNode:
    """A notebook as it is on disk."""
    return nbformat.read(path, as_version=4)


def executed(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """The same notebook, run from a clean kernel with nothing of the user's settings, in its kept form.

    Args:
        folder: the kernel's working folder.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed, and its claim with it.
    """
    fresh = copy.deepcopy(notebook)
    with tempfile.TemporaryDirectory() as settings:
        style = Path(settings, "matplotlibrc")
        style.touch()
        env = {
            **os.environ,
            "IPYTHONDIR": settings,
            "JUPYTER_CONFIG_DIR": settings,
            "MATPLOTLIBRC": str(style),
        }
        client = NotebookClient(
            fresh,
            kernel_name="python3",
            timeout=LIMIT_S,
            startup_timeout=START_LIMIT_S,
            coalesce_streams=True,
            record_timing=False,
            resources={"metadata": {"path": str(folder)}},
        )
        # Sockets in a folder: a port may be taken between its choice and its use.
        kernel = client.create_kernel_manager()
        kernel.transport, kernel.ip = "ipc", f"{settings}/kernel"
        client.execute(env=env)
    return kept(fresh)


def kept(notebook: NotebookNode) -> NotebookNode:
    """Without what differs from run to run: timings, versions, and widgets, which live in a kernel only."""
    notebook = copy.deepcopy(notebook)
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
            for output in cell.outputs:
                if "image/png" in output.get("data", {}):
                    output.data["image/png"] = _with_few_colours(output.data["image/png"])
    return notebook


def written(notebook: NotebookNode) -> str:
    """What the file holds."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=4) + "\n"


def said(notebook: NotebookNode) -> list[list[str]]:
    """All text that each code cell put out; pictures are left out, since fonts and renderers differ."""
    return [[text for output in cell.outputs for text in _texts(output)] for cell in code_cells(notebook)]


def code_cells(notebook: NotebookNode) -> list[Any]:
    """Those that run."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _with_few_colours(png: str) -> str:
    """The picture with a palette, a quarter as large: bars and lines need few colours."""
    image = Image.open(io.BytesIO(base64.b64decode(png)))
    if image.mode == "P":
        return png
    small = io.BytesIO()
    image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def _texts(output: NotebookNode) -> list[str]:
    if output.output_type == "stream":
        return [f"{output.name}: {output.text}"]
    data = sorted(output.get("data", {}).items())
    return [f"{kind}: {text}" for kind, text in data if kind.startswith("text/")]
