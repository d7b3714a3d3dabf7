"""The page of all questions in a real browser, from a file: filters, search, sorting, opening, links to a question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fdarx_core.records import Passage, QuestionAnswer
from fdarx_core.report import build_report, questions_page
from fdarx_core.report.browse import chosen_labels
from fdarx_core.storage import RunDirectory, read_records, write_records
from tests.report.synthetic_run import make_run
from tests.serving.browser import browser as chromium

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.service
MARKUP = "<b onclick=alert(1)>bold</b> 😀 "


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A build whose answers are words of their gold passages, which begin with markup and a character above U+FFFF."""
    made = make_run(tmp_path_factory.mktemp("questions") / "run", labels=24, parts=3)
    texts: dict[tuple[str, int], str] = {}
    for part in made.parts("passages"):
        passages = [replace(one, text=MARKUP + one.text) for one in read_records(part, Passage)]
        texts |= {(one.set_id, one.doc_chunk_index): one.text for one in passages}
        write_records(part, passages, Passage)
    for part in made.parts("questions"):
        questions = [
            replace(one, answer=" ".join(texts[one.set_id, one.gold_passages[0]].split()[3:8]), judge="judging")
            if one.gold_passages else one
            for one in read_records(part, QuestionAnswer)
        ]  # fmt: skip
        write_records(part, questions, QuestionAnswer)
    made.file("questions.html").write_text(questions_page(made))
    made.file("report.html").write_text(build_report(made))
    return made


@pytest.fixture(scope="module")
def questions(run: RunDirectory) -> list[QuestionAnswer]:
    return [one for part in run.parts("questions") for one in read_records(part, QuestionAnswer)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here; install one, or set BROWSER_PATH")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def address(run: RunDirectory) -> str:
    return Path(run.file("questions.html").address).as_uri()


@pytest.fixture
def page(browser: Browser, run: RunDirectory, address: str) -> Iterator[Page]:
    """The page, opened from disk; whatever breaks in it or would load anything but the two pages fails the test."""
    faults: list[str] = []
    own = (address, address.replace("questions.html", "report.html"))
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda told: faults.append(told.text) if told.type == "error" else None)
    opened.on("request", lambda asked: faults.append(asked.url) if not asked.url.startswith(own) else None)
    opened.goto(address)
    expect(opened.locator("#found")).to_contain_text("questions match")
    yield opened
    opened.close()
    assert faults == []


def pick(page: Page, field: str, start: str) -> None:
    select = page.locator(f"select[data-field={field}]")
    select.select_option(select.locator("option").filter(has_text=start).first.get_attribute("value") or "")


def test_filters_and_search_narrow_the_table(page: Page, questions: list[QuestionAnswer]) -> None:
    found = page.locator("#found")
    expect(found).to_contain_text(f"{len(questions):,} of {len(questions):,} questions match")
    pick(page, "difficulty", "Row of a table")
    tables = sum(one.difficulty == "table" for one in questions)
    expect(found).to_contain_text(f"{tables} of {len(questions):,} questions match")
    page.get_by_role("button", name="Clear all").click()
    pick(page, "type", "Multi-hop")
    multihop = [one for one in questions if one.type == "multihop"]
    expect(found).to_contain_text(f"{len(multihop)} of {len(questions):,} questions match")
    pick(page, "topic", multihop[0].category)
    same = [one for one in multihop if one.category == multihop[0].category]
    expect(found).to_contain_text(f"{len(same)} of {len(questions):,} questions match")
    expect(page.locator("tbody .type").first).to_have_text("Multi-hop")
    expect(page.locator("#filters summary")).to_have_text("Filters (2 in use)")
    page.fill("#search", f"{same[0].drug_name.upper()} {same[0].id}")
    expect(found).to_contain_text(f"1 of {len(questions):,} questions match")
    page.reload()
    expect(found).to_contain_text(f"1 of {len(questions):,} questions match")
    page.get_by_role("button", name="Clear all").click()
    expect(found).to_contain_text(f"{len(questions):,} of {len(questions):,} questions match")
    page.fill("#search", "no such words anywhere")
    expect(found).to_contain_text("None of the")


def test_a_row_opens_by_keys_with_the_answer_marked_in_its_passages(
    page: Page, questions: list[QuestionAnswer]
) -> None:
    asked = next(one for one in questions if one.type == "factual")
    page.fill("#search", asked.id)
    opener = page.locator(".opener")
    expect(opener).to_have_count(1)
    opener.focus()
    page.keyboard.press("Enter")
    expect(opener).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".detail .gold")).to_contain_text(asked.answer)
    expect(page.locator(".detail blockquote")).to_have_count(1)
    expect(page.locator(".detail blockquote mark.sentence").first).to_have_text(asked.answer)
    expect(page.locator(".detail .text")).to_contain_text(MARKUP.strip())
    expect(page.locator(".detail b[onclick]")).to_have_count(0)
    expect(page.locator(".detail dl")).to_contain_text(asked.set_id)
    page.keyboard.press("Enter")
    expect(page.locator(".detail")).to_have_count(0)


def test_a_refusal_question_says_what_it_asks_about(page: Page) -> None:
    pick(page, "type", "Refusal")
    page.locator(".opener").first.click()
    expect(page.locator(".detail")).to_contain_text("There are no gold passages.")
    expect(page.locator(".detail dl")).to_contain_text("myasthenia gravis")
    expect(page.locator(".detail dl div").filter(has_text="Twin").locator("a")).to_have_count(1)


def test_a_link_opens_its_question_wherever_it_stands(
    page: Page, address: str, questions: list[QuestionAnswer]
) -> None:
    for asked in (questions[-1], questions[0]):
        page.goto(f"{address}#{asked.id}")
        opener = page.locator(f"#open-{asked.id}")
        expect(opener).to_have_attribute("aria-expanded", "true")
        expect(opener).to_be_in_viewport()
        expect(page.locator(f"#detail-{asked.id} .gold")).to_contain_text(asked.answer)
    page.goto(f"{address}#0123456789abcdef")
    expect(page.locator("#found")).to_contain_text("There is no question 0123456789abcdef on this page.")


def test_rows_are_sorted_and_turned_page_by_page(page: Page, questions: list[QuestionAnswer]) -> None:
    drug = page.locator("[data-sort=drug]")
    drugs = page.locator("tbody tr td:nth-child(3)")
    names = sorted({one.drug_name for one in questions})
    drug.click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Drug")
    expect(drugs.first).to_have_text(names[0])
    drug.click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Drug")
    expect(drugs.first).to_have_text(names[-1])
    shown = page.locator(".opener").all_text_contents()
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#found")).to_contain_text("Rows 51 to 100 are shown")
    assert page.locator(".opener").all_text_contents() != shown
    page.get_by_role("button", name="Previous").click()
    expect(page.locator("#found")).to_contain_text("Rows 1 to 50 are shown")


def test_the_report_and_the_table_link_to_each_other(page: Page, questions: list[QuestionAnswer]) -> None:
    page.get_by_role("link", name="Report of this build").click()
    sample = page.locator("#samples details.sample").first
    sample.locator("summary").click()
    link = sample.locator("a")
    name = (link.text_content() or "").removeprefix("question ")
    link.click()
    expect(page.locator(f"#open-{name}")).to_have_attribute("aria-expanded", "true")


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.locator(".opener").first.click()
    expect(page.locator(".detail blockquote").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_page_of_a_large_build_has_whole_labels(run: RunDirectory, questions: list[QuestionAnswer]) -> None:
    chosen, total = chosen_labels(run.parts("questions"), 0, len(questions) // 2)
    shown = [one for one in questions if one.set_id in chosen]
    assert total == len(questions) and 0 < len(shown) <= total // 2
    page = questions_page(run, most_questions=total // 2)
    assert f"{len(shown):,} questions from {len(chosen)} drug labels" in page
    assert f"The build has {total:,} questions, more than a page can show." in page
