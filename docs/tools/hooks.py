"""What mkdocs calls: the pages of the reference are added, pages filled in, formulas drawn."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402

from docs.tools import formulas, includes, reference  # noqa: E402 - the path comes first


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The reference takes its place in the navigation."""
    place = next(entry for entry in config.nav if "Reference" in entry)
    for section, pages in reference.pages().items():
        place["Reference"].append({section: [{title: path} for title, path, _ in pages]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Its pages are made of what modules there are."""
    for pages in reference.pages().values():
        for title, path, modules in pages:
            files.append(File.generated(config, path, content=reference.text(title, modules)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return includes.filled(markdown)


def on_page_content(html: str, **_: Any) -> str:
    return formulas.drawn(html)
