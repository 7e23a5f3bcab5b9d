import dataclasses
import io
import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

from analysis.report.build import figure_files, render, report_for_study
from simulator.studies.hypothesis import Hypothesis
from tests.analysis.factories import recorded

RISE = np.linspace(0.1, 0.9, 40)
FALL = np.concatenate([np.linspace(0.1, 0.8, 20), np.full(20, 0.1)])
CLAIM = Hypothesis(
    id="H1",
    claim="SAO ends higher than GRPO & friends",
    source="ours",
    metric="final_score",
    kind="paired_difference",
    better_arm="sao",
    worse_arm="grpo",
)
HOSTILE = "<script>alert(1)</script>\"'&"


class Page(HTMLParser):
    """Tags with their attributes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data


def write(folder, curves, **registered):
    for arm, shape in curves.items():
        for seed in range(3):
            curve = shape + 0.001 * seed * (1 if arm == "sao" else -1)
            recorded(curve, lag=2, masked_fraction=0.004, flat_fraction=0.1).log().write(
                folder / "cells" / f"arm{list(curves).index(arm)}-seed{seed}",
                meta={"arm": arm, "seed": seed, "clock": "simulated"},
            )
    (folder / "study.json").write_text(json.dumps(registered))
    made = {"command": "policylag study quick", "versions": {"numpy": "2"}}
    (folder / "meta.json").write_text(json.dumps(made))
    return folder


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = write(
        tmp_path_factory.mktemp("study"),
        {"sao": RISE, "grpo": FALL},
        title="Quick study",
        criteria={"target": 0.7, "chance": 0.1, "collapse_window_updates": 10},
        hypotheses=[dataclasses.asdict(CLAIM)],
        arms=["grpo", "sao"],
    )
    return report_for_study(folder)


@pytest.fixture(scope="module")
def page(report):
    return render(report)


def test_the_headline_says_who_learned_what_broke_and_which_claims_held(report):
    assert report.headline.startswith("sao ends highest, at accuracy 0.8")
    assert "above grpo by +0.7" in report.headline
    assert "Collapsed: grpo in 3 of 3 seeds." in report.headline
    assert report.headline.endswith("Of 1 claims: 1 supported, 0 contradicted, 0 not separable.")
    assert list(report.table.index) == ["grpo", "sao"]


def test_the_verdict_comes_before_the_tables_and_the_tables_before_the_figures(page, report):
    order = ("ends highest", "<h2>Verdict by arm", "<h2>Claims", "<h2>Figures", "<h2>Definitions")
    places = [page.index(text) for text in order]
    assert places == sorted(places)
    words = Page(page).words
    for text in ("policylag study quick", "numpy 2", "seeds of every arm", CLAIM.claim, "3 of 3"):
        assert text in words
    assert report.verdicts[0].verdict in words


def test_the_page_fetches_nothing(page):
    outside = {"src", "href", "xlink:href", "action", "data", "srcset", "poster"}
    for tag, attributes in Page(page).tags:
        assert tag not in ("script", "link", "iframe", "object", "embed", "base")
        for name in outside & set(attributes):
            assert attributes[name].startswith(("#", "data:text/csv;"))
    assert not re.search(r"@import|url\((?!#)", page)


def test_every_figure_and_every_table_links_to_its_numbers_and_to_a_command(page):
    links = [attributes for tag, attributes in Page(page).tags if tag == "a" and "download" in attributes]
    tags = [tag for tag, _ in Page(page).tags]
    # Besides: the verdict's table has one by arm and one by run.
    assert len(links) == tags.count("figure") + tags.count("table") + 1
    files = {link["download"]: unquote(link["href"].split(",", 1)[1]) for link in links}
    rows = pd.read_csv(io.StringIO(files["accuracy-by-update.csv"]))
    assert rows.loc[rows["arm"] == "sao", "mean"].iloc[-1] == pytest.approx(0.901)
    runs = pd.read_csv(io.StringIO(files["data-by-run.csv"]))
    assert len(runs) == 6
    words = Page(page).words
    assert words.count("command") >= len(links) - 1
    assert "policylag report " in words


def test_files_are_pictures_two_ways_and_their_numbers(report):
    found = dict(figure_files(report))
    names = {name.rsplit(".", 1)[0] for name in found}
    assert set(found) == {f"{name}.{kind}" for name in names for kind in ("svg", "png", "csv")}
    assert found["accuracy-by-update.png"].startswith(b"\x89PNG")
    assert found["accuracy-by-update.svg"].startswith(b"<svg")
    rows = pd.read_csv(io.BytesIO(found["how-old-was-the-data.csv"]))
    assert rows["rollouts"].sum() == 6 * 40


def test_figures_of_one_title_do_not_replace_each_other(tmp_path):
    pictures = [{"kind": "survival", "where": {"arm": arm}} for arm in ("sao", "grpo")]
    folder = write(tmp_path, {"sao": RISE, "grpo": FALL}, pictures=pictures)
    found = dict(figure_files(report_for_study(folder)))
    assert {"seeds-still-standing.svg", "seeds-still-standing-2.svg"} <= set(found)


def test_of_many_arms_a_figure_shows_the_ends_of_the_ranking(tmp_path):
    curves = {f"arm {i:02}": np.linspace(0.1, 0.1 + 0.05 * i, 12) for i in range(12)}
    report = report_for_study(write(tmp_path, curves))
    page = Page(render(report))
    label = next(
        own["aria-label"] for _, own in page.tags if "one line an arm" in (own.get("aria-label") or "")
    )
    drawn = {f"arm {i:02}" for i in range(12) if f"arm {i:02} ends" in label}
    assert drawn == {f"arm {i:02}" for i in (0, 1, 2, 3, 8, 9, 10, 11)}
    assert "8 of 12 arms: the 4 highest and 4 lowest in final score." in page.words
    assert len(report.table) == 12


def test_a_run_alone_says_how_to_make_it_again(tmp_path):
    folder = tmp_path / "my run"
    recorded(None).log().write(folder, config={"slots": 4}, meta={"seed": 0})
    words = Page(render(report_for_study(folder))).words
    assert f"policylag simulate --config '{folder}/config.json'" in words


def test_every_figure_says_in_words_what_it_shows(page):
    tags = Page(page).tags
    labels = [attributes["aria-label"] for _, attributes in tags if attributes.get("role") == "img"]
    assert len(labels) == sum(tag == "figure" for tag, _ in tags) == 8
    assert any("sao ends at 0.9" in label and "n = 3" in label for label in labels)
    assert any("grpo: 3 of 3 collapsed" in label for label in labels)
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_it_follows_the_readers_light_and_the_width_of_the_screen(page):
    assert "prefers-color-scheme: dark" in page
    assert "width=device-width" in page
    assert 'data-label="sao"' in page  # in a card every cell says what it is of


def test_names_cannot_break_out_of_the_page(tmp_path):
    folder = write(tmp_path, {HOSTILE: RISE, "sao": RISE}, title=HOSTILE)
    page = render(report_for_study(folder))
    assert "<script" not in page
    assert HOSTILE in Page(page).words
    assert any(HOSTILE in (attributes.get("aria-label") or "") for _, attributes in Page(page).tags)


def test_the_same_runs_give_the_same_page(report, page):
    assert render(report) == page


def test_a_single_run_that_only_kept_time_has_a_report_too(tmp_path):
    folder = tmp_path / "my-run"
    recorded(None, lag=1).log().write(folder, config={"criteria": "of something else"}, meta={"seed": 3})
    report = report_for_study(folder)
    assert report.headline == "my-run: mean lag 0.88 updates, trainer 25% idle, engines 75% idle."
    words = Page(render(report)).words
    assert "1 run, 1 arm, 1 seed; " in words
    assert "accuracy" not in words.lower().replace("final accuracy", "")  # a dash in the table, no more


def test_runs_that_only_kept_time_are_told_from_the_least_lag_to_the_most(tmp_path):
    for name, lag in (("old", 2), ("new", 1)):
        recorded(None, lag=lag).log().write(tmp_path / name, meta={"seed": 3})
    report = report_for_study(tmp_path / "old", tmp_path / "new")
    assert report.title == "old and 1 more"
    lags = report.table["mean_lag"]
    assert report.headline == (
        f"Mean lag from {lags['new']:.2f} updates (new) to {lags['old']:.2f} (old);"
        " trainers 25% to 25% idle, engines 75% to 75% idle."
    )
    assert lags["new"] < lags["old"]


def test_runs_side_by_side_need_no_study(tmp_path):
    for name in ("a", "b"):
        recorded(RISE).log().write(tmp_path / name, meta={"seed": 0})
    report = report_for_study(tmp_path / "a", tmp_path / "b")
    assert list(report.table.index) == ["a", "b"]
    assert "too few paired seeds" in report.headline


def test_the_headline_does_not_rank_arms_that_seeds_cannot_tell_apart(tmp_path):
    # Seed by seed, "sao" gains and "other" loses a thousandth: 0, .002 and .004 apart.
    report = report_for_study(write(tmp_path, {"sao": RISE, "other": RISE}))
    assert "sao ends highest" in report.headline
    assert "not separable from other (+0.002 [-0.003, +0.007] over 3 paired seeds)" in report.headline


def test_a_study_counts_only_its_registered_runs_and_says_how_many_are_missing(tmp_path):
    runs = [f"cells/arm0-seed{seed}" for seed in (0, 1, 7)]
    report = report_for_study(write(tmp_path, {"sao": RISE}, runs=runs))
    assert report.table.loc["sao", "n"] == 2
    assert report.headline.endswith("1 of 3 registered runs is missing.")
    assert "missing runs" in render(report)


def test_a_study_shows_the_pictures_it_registered_and_what_it_fitted(tmp_path):
    fitted = Hypothesis(
        id="F1",
        claim="the exponent is one",
        source="ours",
        metric="boundary_exponent",
        kind="fitted",
        between=(0.8, 1.2),
    )
    folder = write(
        tmp_path,
        {"sao": RISE, "grpo": FALL},
        factors={arm: {"estimator": arm, "lag": 2, "learning_rate": 0.002} for arm in ("sao", "grpo")},
        criteria={"target": 0.7, "chance": 0.1},
        pictures=[{"kind": "score_by_factor", "factor": "estimator", "line": "lag"}],
        hypotheses=[dataclasses.asdict(fitted), dataclasses.asdict(CLAIM)],
    )
    page = Page(render(report_for_study(folder)))
    assert "Final score by estimator" in page.words
    assert "no value; claimed: between 0.8 and 1.2" in page.words
    assert "cannot be had: " in page.words
    assert "3 of 3: 100% [44%, 100%]" in page.words  # how grpo ended, Wilson's interval
    assert "2 claims, each judged on its own" in page.words


def test_a_picture_that_there_is_not_is_an_error_that_names_it(tmp_path):
    folder = write(tmp_path, {"sao": RISE}, pictures=[{"kind": "pie"}])
    with pytest.raises(ValueError, match="no picture is of the kind 'pie'"):
        render(report_for_study(folder))
