"""The page of all answers in a real browser, from a file: filters, search, opening, links from the report."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fdarx_core.report.answers_page import FIELDS, answers_page
from fdarx_core.report.evaluation_page import build_evaluation_report
from fdarx_core.storage import RunDirectory
from tests.report.synthetic_evaluation import make_evaluation
from tests.report.test_answers_page import answers_of
from tests.serving.browser import browser as chromium

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    made = make_evaluation(tmp_path_factory.mktemp("evaluation") / "run")
    made.file("answers.html").write_text(answers_page(made))
    made.file("report.html").write_text(build_evaluation_report(made))
    return made


@pytest.fixture(scope="module")
def page(run: RunDirectory) -> Iterator[Page]:
    """A browser's page; what breaks in it, or would load anything but the two pages, fails the tests."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here; install one, or set BROWSER_PATH")
    faults: list[str] = []
    folder = Path(run.file("answers.html").address).parent.as_uri()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.on("request", lambda asked: faults.append(asked.url) if not asked.url.startswith(folder) else None)
        yield opened
        browser.close()
    assert faults == []


def open_page(page: Page, run: RunDirectory, name: str = "answers.html", hash_: str = "") -> None:
    page.goto("about:blank")
    page.goto(f"{Path(run.file(name).address).as_uri()}{hash_}")


def test_filters_and_search_narrow_the_list(page: Page, run: RunDirectory) -> None:
    answers = answers_of(answers_page(run))
    kinds = Counter(one["kind"] for one in answers)
    open_page(page, run)
    expect(page.locator("#found")).to_contain_text(f"{len(answers):,} of {len(answers):,} answers match.")
    shown = page.locator(".filters label:visible select").evaluate_all("all => all.map((one) => one.dataset.field)")
    assert set(shown) == {name for name in FIELDS if len({one[name] for one in answers}) > 1}
    select = page.locator("select[data-field=kind]")
    select.select_option(label=f"Correct answer ({kinds['Correct answer']:,})")
    expect(page.locator("#found")).to_contain_text(f"{kinds['Correct answer']:,} of {len(answers):,} answers match.")
    one = next(one for one in answers if one["kind"] == "Correct answer")
    page.locator("#search").fill(one["id"])
    expect(page.locator("#answers details:not(.other)")).to_have_count(1)
    assert "kind=Correct+answer" in page.evaluate("location.hash")
    page.locator("button[type=reset]").click()
    expect(page.locator("#found")).to_contain_text(f"{len(answers):,} of {len(answers):,} answers match.")


def test_models_stand_side_by_side_and_those_that_differ_are_found(page: Page, run: RunDirectory) -> None:
    open_page(page, run)
    expect(page.locator(".answers-row").first.locator("details")).to_have_count(3)
    expect(page.locator(".asked").first.locator(".gold")).to_contain_text("Gold answer")
    unscored = {"Unparsed reply", "Unscored answer", "No reply"}
    kinds: dict[tuple[str, str], set[str]] = defaultdict(set)
    answers = answers_of(answers_page(run))
    for one in answers:
        kinds[one["question_id"], one["setting"]] |= {one["kind"]} - unscored
    declines = [both for both in kinds.values() if {"Incorrect answer", "False refusal"} == both]
    assert declines  # one model declines and the other one makes up an answer
    page.locator(".views label", has_text="Models differ").click()
    expect(page.locator(".views label", has_text="Models differ").locator("small")).to_have_text(
        f"{sum(len(kinds[one['question_id'], one['setting']]) > 1 for one in answers):,}"
    )
    number = sum(one["kind"] in unscored for one in answers)
    page.locator(".views label", has_text="Unscored").click()
    expect(page.locator("#found")).to_contain_text(f"{number} of ")


def test_marks_and_comments_are_kept_and_saved_as_files(page: Page, run: RunDirectory) -> None:
    one = next(one for one in answers_of(answers_page(run)) if one["kind"] == "Incorrect answer")
    open_page(page, run, hash_=f"#search={one['id']}")
    page.locator("#answers details:not(.other) summary").click()
    page.locator(".mark-form select").select_option("disagree")
    page.locator(".mark-form textarea").fill('The dose is "right"')
    page.locator(".mark-form textarea").blur()
    open_page(page, run, hash_="#view=marked")
    expect(page.locator("#answers details:not(.other) .mine")).to_have_text("✎ The verdict is wrong")
    saved = {}
    for kind in ("jsonl", "csv"):
        with page.expect_download() as download:
            page.locator(f"button[data-export={kind}]").click()
        saved[kind] = download.value.path().read_text("utf-8")
    (of_table,) = csv.DictReader(saved["csv"].splitlines())
    assert (of_table["answer_id"], of_table["comment"]) == (one["id"], 'The dose is "right"')
    assert json.loads(saved["jsonl"])["mark"] == of_table["mark"] == "disagree"


def test_an_answer_opens_with_its_explanation_and_passages(page: Page, run: RunDirectory) -> None:
    one = next(
        one
        for one in answers_of(answers_page(run))
        if one["kind"] == "Incorrect answer" and one["gold"] and one["cited"]
    )
    open_page(page, run, hash_=f"#search={one['id']}")
    page.locator("#answers details:not(.other) summary").click()
    shown = page.locator("#answers details[open]")
    expect(shown).to_contain_text(one["finding"])
    for name in (".gold", "details[open]"):  # both as wide as the card
        width = page.locator(f".asked > {name}, .answers-row > {name}").first.evaluate("it => it.clientWidth")
        assert width > 0.9 * page.locator(".asked").first.evaluate("it => it.clientWidth"), name
    assert page.locator(".asked").first.inner_text().count("Gold answer") == 1
    expect(shown.locator("blockquote")).to_have_count(len(one["gold"]) + len(one["cited"]["passages"]))


def test_the_numbers_of_the_report_lead_to_their_answers(page: Page, run: RunDirectory) -> None:
    open_page(page, run, "report.html")
    link = page.locator("#answers a[href*=kind]").first
    number = link.inner_text()
    link.click()
    expect(page.locator("#found")).to_contain_text(f"{number} of ")


@pytest.mark.parametrize("width", [380, pytest.param(1280, marks=pytest.mark.nightly), 1900])
def test_nothing_is_wider_than_the_screen(page: Page, run: RunDirectory, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for name in ("answers.html", "report.html"):
        open_page(page, run, name)
        assert page.locator("#filters[open]").count() == (width > 640 and name == "answers.html")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), name


def test_points_of_a_chart_are_named_at_once_and_hidden_by_the_legend(page: Page, run: RunDirectory) -> None:
    open_page(page, run, "report.html")
    chart = page.locator(".chart:has(.key)").first
    key = chart.locator(".key").first
    series = key.get_attribute("data-series")
    point = chart.locator(f"svg.symbol[data-series='{series}'] path[data-hover]")
    named = point.get_attribute("data-hover") or ""
    assert named.startswith((key.text_content() or "").strip()[:10])
    point.hover()
    expect(page.locator(".hover")).to_have_text(named)
    key.focus()
    page.keyboard.press("Enter")
    expect(key).to_have_attribute("aria-pressed", "false")
    expect(chart.locator(f"svg.symbol.off[data-series='{series}']")).to_have_count(1)
    key.click()
    expect(chart.locator(".off")).to_have_count(0)
