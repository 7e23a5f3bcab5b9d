"""What does a browser make of the page? A real Chromium, at the widths and in the light that people have."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import re
import time

import numpy as np
import pandas as pd
import pytest

from analysis.report import page as html
from analysis.report.build import render, report_for_study
from simulator.studies.hypothesis import Hypothesis
from tests.analysis.factories import recorded
from tests.analysis.report.browser import browser, chromium

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium is installed")

LONG = "a-clip-on-the-behaviour-ratio-with-a-name-that-nobody-could-want-to-read-in-a-legend"
CLAIM = Hypothesis(
    id="H1",
    claim="the steady arm ends higher than the one that falls",
    source="ours",
    metric="final_score",
    kind="paired_difference",
    better_arm=LONG,
    worse_arm="falls",
)

WIDTHS = """(() => {
  const room = document.documentElement.clientWidth + 1;
  const wide = [...document.querySelectorAll('main *')].filter(one => {
    const box = one.getBoundingClientRect();
    return box.width > 0 && (box.right > room || box.left < -1)
      && !one.closest('thead') && !one.closest('svg');
  });
  return {page: document.documentElement.scrollWidth, room,
          cut: wide.map(one => one.tagName + ' ' + one.textContent.slice(0, 40))};
})()"""
"""What is wider than the page, or stands beside it."""

CONTRASTS = """(() => {
  const light = text => {
    const parts = text.match(/[\\d.]+/g).map(Number);
    if (parts.length === 4 && parts[3] === 0) return null;
    const linear = parts.slice(0, 3).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92
                                                           : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = one => one === null ? 1
    : light(getComputedStyle(one).backgroundColor) ?? behind(one.parentElement);
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const told = [...document.querySelectorAll('main *:not(style)')].filter(one =>
    [...one.childNodes].some(child => child.nodeType === 3 && child.textContent.trim()));
  return told.map(one => {
    const drawn = one instanceof SVGElement;
    const style = getComputedStyle(one);
    return {text: one.textContent.trim().slice(0, 30), drawn,
            contrast: contrast(light(drawn ? style.fill : style.color), behind(one))};
  });
})()"""
"""Of every text, how far it stands out (https://www.w3.org/TR/WCAG21/#contrast-minimum)."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Two arms, one of them with a long name, with a claim, a collapse and every usual figure."""
    folder = tmp_path_factory.mktemp("study")
    curves = {
        LONG: np.linspace(0.1, 0.9, 40),
        "falls": np.concatenate([np.linspace(0.1, 0.8, 20), np.full(20, 0.1)]),
    }
    for place, (arm, curve) in enumerate(curves.items()):
        for seed in range(3):
            recorded(curve + 0.001 * seed, lag=2, masked_fraction=0.004, flat_fraction=0.1).log().write(
                folder / "cells" / f"arm{place}-seed{seed}",
                meta={"arm": arm, "seed": seed, "clock": "simulated"},
            )
    registered = {
        "title": "Two arms",
        "criteria": {"target": 0.7, "chance": 0.1, "collapse_window_updates": 10},
        "hypotheses": [dataclasses.asdict(CLAIM)],
    }
    (folder / "study.json").write_text(json.dumps(registered))
    (folder / "meta.json").write_text(json.dumps({"command": "policylag study quick --seeds 3"}))
    file = folder / "report.html"
    file.write_text(render(report_for_study(folder)))
    return file


@pytest.fixture(scope="module")
def chrome(tmp_path_factory):
    path = chromium()
    assert path is not None
    with browser(path, tmp_path_factory.mktemp("profile")) as started:
        yield started


def test_it_loads_without_an_error_and_asks_for_nothing_but_itself(chrome, page):
    chrome.open(page, width=1280)
    assert chrome.seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []
    asked = [event["request"]["url"] for event in chrome.seen("Network.requestWillBeSent")]
    assert asked == [page.resolve().as_uri()]
    # The page allows no script and no fetch; what it does not need is shut.
    refused = chrome.run("fetch('data:,x').then(() => 'fetched', () => 'refused')")
    assert refused == "refused"


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(chrome, page, width):
    chrome.open(page, width=width)
    seen = chrome.run(WIDTHS)
    assert seen["page"] <= width
    assert seen["cut"] == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_text_stands_out_from_what_is_behind_it(chrome, page, width, dark):
    chrome.open(page, width=width, dark=dark)
    paper = chrome.run("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    texts = chrome.run(CONTRASTS)
    assert len(texts) > 100
    # Text inside a figure stands on the page, but for numbers that are written on a bar or a cell.
    weak = [text for text in texts if text["contrast"] < 4.5 and not (text["drawn"] and "%" in text["text"])]
    assert weak == []


def test_every_figure_says_what_it_shows_and_headings_are_in_order(chrome, page):
    chrome.open(page, width=1280)
    figures, silent = chrome.run(
        "[document.querySelectorAll('figure').length, [...document.querySelectorAll('figure')].filter("
        "one => (one.querySelector('[role=img]')?.getAttribute('aria-label') ?? '').length < 40).length]"
    )
    assert figures >= 6
    assert silent == 0
    levels = chrome.run("[...document.querySelectorAll('h1,h2,h3')].map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    # Every link inside the page leads somewhere.
    lost = chrome.run(
        "[...document.querySelectorAll('a[href^=\"#\"]')].filter("
        "one => !document.getElementById(one.getAttribute('href').slice(1))).length"
    )
    assert lost == 0


def test_the_numbers_of_a_figure_can_be_saved(chrome, page, tmp_path):
    chrome.open(page, width=1280)
    chrome.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    chrome.run("document.querySelector('figure a[download]').click()")
    saved = tmp_path / "accuracy-by-update.csv"
    for _ in range(200):
        if saved.exists() and saved.stat().st_size:
            break
        time.sleep(0.05)
    rows = list(csv.DictReader(saved.read_text().splitlines()))
    assert {row["arm"] for row in rows} == {LONG, "falls"}
    last = [row for row in rows if row["arm"] == LONG][-1]
    assert float(last["x"]) == 40
    assert float(last["mean"]) == pytest.approx(0.901)
    assert last["n"] == "3"


@pytest.mark.parametrize("dark", [False, True])
def test_on_paper_it_is_dark_on_light_and_nothing_is_cut(chrome, page, dark):
    chrome.open(page, width=718, dark=dark, media="print")  # A4 less its margins, at 96 dots an inch
    assert chrome.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    seen = chrome.run(WIDTHS)
    assert seen["page"] <= 719
    assert seen["cut"] == []
    # Rows stay rows: the cards are for small screens.
    assert chrome.run("getComputedStyle(document.querySelector('tbody tr')).display") == "table-row"
    printed = chrome.pdf()
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 8


@pytest.mark.parametrize("width", [1280, 390])
def test_a_table_of_many_rows_scrolls_in_a_box_of_its_own_and_is_whole_on_paper(chrome, tmp_path, width):
    rows = pd.DataFrame(
        {"mean": [f"{i}" for i in range(80)], "n": "3"}, index=[f"arm {i}" for i in range(80)]
    )
    file = tmp_path / "long.html"
    file.write_text(html.page("long", [html.data_table(rows, corner="arm")]))
    chrome.open(file, width=width)
    box = "document.querySelector('.long')"
    assert chrome.run(f"{box}.scrollHeight > {box}.clientHeight + 500")
    assert chrome.run("document.documentElement.scrollHeight") < 1000
    assert chrome.run(f"{box}.focus(), document.activeElement === {box}")
    chrome.emulate(media="print")
    assert chrome.run(f"{box}.scrollHeight === {box}.clientHeight")
