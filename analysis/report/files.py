"""What lies beside the page when files are asked for? Every figure as SVG and PNG, and its numbers as CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from analysis.figures.style import alone
from analysis.pictures.picture import Picture
from analysis.report.data import as_csv


def files(pictures: Sequence[Picture]) -> Iterator[tuple[str, bytes]]:
    """Name and content, one at a time; figures of one title are numbered."""
    seen: Counter[str] = Counter()
    for picture in pictures:
        seen[picture.file_name] += 1
        again = seen[picture.file_name]
        name = picture.file_name if again == 1 else f"{picture.file_name}-{again}"
        yield f"{name}.svg", alone(picture.drawing.svg()).encode()
        yield f"{name}.png", picture.drawing.png()
        if picture.table is not None:
            yield f"{name}.csv", as_csv(picture.table).encode()
