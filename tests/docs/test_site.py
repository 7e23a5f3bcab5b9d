"""The site builds without a warning, its links lead somewhere, and nothing on it comes from a network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import ROOT

FETCHED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Tags whose address a browser fetches by itself."""


class Page(HTMLParser):
    """What a page links to, what it fetches, and which places it has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.places: set[str] = set()
        self.without_words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        if of.get("id"):
            self.places.add(str(of["id"]))
        if tag == "a" and of.get("href"):
            self.links.append(str(of["href"]))
        if tag in FETCHED and of.get(FETCHED[tag]) and of.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(str(of[FETCHED[tag]]))
        if tag == "img" and not of.get("alt"):
            self.without_words.append(str(of.get("src")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in a process of its own: it must need neither torch nor vLLM loaded, and leaves no state here."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}


@pytest.mark.slow
def test_every_internal_link_leads_to_a_place(site, pages):
    lost = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            base = site if parts.path.startswith("/") else file.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                lost.append((file.name, link))
            elif parts.fragment and target.suffix == ".html":
                anchors = pages[target].places if target in pages else Page(target.read_text()).places
                if unquote(parts.fragment) not in anchors:
                    lost.append((file.name, link))
    assert lost == []


@pytest.mark.slow
def test_nothing_is_fetched_from_a_network(site, pages):
    assert [link for page in pages.values() for link in page.fetched if urlsplit(link).netloc] == []
    styles = [css.read_text(encoding="utf-8") for css in site.rglob("*.css")]
    assert styles
    assert not [found for css in styles for found in re.findall(r"url\(['\"]?https?:[^)]*", css)]


@pytest.mark.slow
def test_formulas_are_drawn_and_pictures_have_words(pages):
    assert not [file for file in pages if 'class="arithmatex"' in file.read_text(encoding="utf-8")]
    drawn = [file for file in pages if "<math " in file.read_text(encoding="utf-8")]
    assert {"estimators.html", "glossary.html"} <= {file.name for file in drawn}
    assert [image for page in pages.values() for image in page.without_words] == []


@pytest.mark.slow
def test_no_page_shows_what_it_was_made_of(pages):
    """Directives that were not understood would stand there as text."""
    for file in pages:
        text = re.sub(r"<(code|pre|script)\b.*?</\1>", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.findall(r"include: \w+ -->|:math:|\.\. math::|^:::", text), file.name
