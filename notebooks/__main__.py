"""`python -m notebooks [01 04]`: run these notebooks, or all, from a clean kernel, and keep what they say."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

from nbclient.exceptions import CellExecutionError, DeadKernelError

from notebooks.execution import FOLDER, executed, paths, read, written

COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


def main(words: list[str], folder: Path = FOLDER) -> int:
    """Exit status: 0 all kept, 1 a cell failed (its notebook stays as it was), 2 no such notebook."""
    known = paths(folder)
    there_are = ", ".join(path.stem for path in known)
    chosen: list[Path] = []
    for word in words:
        found = [path for path in known if word and path.stem.startswith(word.removesuffix(".ipynb"))]
        if not found:
            print(f"notebooks: no notebook {word!r}; there are {there_are}", file=sys.stderr)
            return 2
        chosen += found
    failed = 0
    for path in chosen or known:
        print(f"{path.name} ...", file=sys.stderr, flush=True)
        try:
            notebook = executed(read(path), folder)
        except (CellExecutionError, DeadKernelError) as error:
            failed += 1
            print(
                f"{path.name}: a cell failed; the file stays as it was\n{COLOUR.sub('', str(error))}",
                file=sys.stderr,
            )
            continue
        # Written beside and renamed: an interrupt leaves the old file whole.
        beside = path.with_suffix(".part")
        beside.write_text(written(notebook), encoding="utf-8")
        os.replace(beside, path)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
