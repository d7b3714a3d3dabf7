"""The answer viewer in a real browser, from a file: choosing claims, reading their evidence, filtering."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fdarx_core.report.factuality_page import factuality_page
from tests.report.synthetic_factuality import SyntheticFactuality
from tests.serving.browser import browser as chromium

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.service
MARKUP = "<b onclick=alert(1)>bold</b>"


@pytest.fixture(scope="module")
def made() -> SyntheticFactuality:
    return SyntheticFactuality(hostile=MARKUP)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here; install one, or set BROWSER_PATH")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(made: SyntheticFactuality, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("factuality") / "report.html"
    path.write_text(factuality_page(**made.results()), encoding="utf-8")
    return path


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    """The page, opened from disk; whatever breaks in it or would load anything fails the test."""
    faults: list[str] = []
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda told: faults.append(told.text) if told.type == "error" else None)
    opened.on("request", lambda asked: faults.append(asked.url) if asked.url != file.as_uri() else None)
    opened.goto(file.as_uri())
    yield opened
    opened.close()
    assert faults == []


def test_an_answer_opens_with_its_text_whole_and_its_gravest_claim_chosen(
    page: Page, made: SyntheticFactuality
) -> None:
    page.locator("#answer-controls select[data-field=verdict]").select_option("Contradicted")
    page.locator(".answered > summary").first.click()
    opened = page.locator(".answered[open]")
    texts = {one.answer.answer for one in made.answers}
    assert opened.locator(".answer-text").text_content() in texts
    assert opened.locator(".answer-text b").count() == 0
    expect(opened.locator('[aria-current="true"]')).to_have_class("claim contradicted")
    expect(opened.locator(".held .verdict-line")).to_contain_text("✗ Contradicted by passage")
    expect(opened.locator(".held blockquote")).to_have_count(5)
    expect(opened.locator(".held blockquote.decided .tag")).to_have_text("decided")


def test_windows_are_marked_letter_for_letter(page: Page, made: SyntheticFactuality) -> None:
    windows = {
        one.evidence[pair.evidence_id].text[pair.start : pair.end]
        for one in made.answers for pair in one.pairs if pair.kind == "evidence"
    }  # fmt: skip
    for summary in page.locator(".answered > summary").all()[:8]:
        summary.click()
    marks = page.locator(".held .text mark").all_text_contents()
    assert len(marks) > 10 and set(marks) <= windows


def test_claims_are_reached_and_read_by_keys_alone(page: Page) -> None:
    summary = page.locator(".answered:has(.tag.supported):has(.tag.contradicted) > summary").first
    summary.focus()
    page.keyboard.press("Enter")
    claims = page.locator(".answered[open] .answer-text .claim")
    expect(claims.first).to_be_visible()
    page.keyboard.press("Tab")
    expect(claims.first).to_be_focused()
    expect(claims.first).to_have_attribute("aria-current", "true")
    before = page.locator(".held").inner_text()
    page.keyboard.press("ArrowRight")
    expect(claims.nth(1)).to_be_focused()
    assert page.locator(".held").inner_text() != before
    page.keyboard.press("Enter")
    expect(page.locator(".held")).to_be_focused()
    page.keyboard.press("Escape")
    expect(claims.nth(1)).to_be_focused()
    assert claims.nth(1).evaluate("one => getComputedStyle(one, '::after').content").strip('"')[0] in "✓✗?–"


def test_filters_and_search_narrow_the_list(page: Page, made: SyntheticFactuality) -> None:
    found = page.locator("#answer-found")
    page.locator("#answer-controls select[data-field=flag]").select_option("any")
    flagged = [one for one in made.answers if one.flags]
    expect(found).to_contain_text(f"of {len(flagged)} answers shown")
    page.locator("#answer-controls select[data-field=model]").select_option("small")
    small = [one for one in flagged if one.answer.model == "small"]
    expect(found).to_contain_text(f"of {len(small)} answers shown")
    page.locator(".answered > summary").first.click()
    expect(page.locator(".answered[open] .flags li")).to_have_count(2)
    expect(page.locator(".answered[open] mark.flag")).not_to_have_count(0)
    page.fill("#answer-search", small[0].answer.id.upper())
    alike = [one for one in small if small[0].answer.id in one.answer.id]
    expect(found).to_contain_text(f"{len(alike)} of {len(alike)} answers shown")


def test_on_a_narrow_screen_the_evidence_stays_at_hand_and_nothing_is_cut_off(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.locator(".answered:has(.tag.contradicted) > summary").first.click()
    claim = page.locator(".answered[open] .answer-text .claim").first
    claim.click()
    expect(claim).to_be_in_viewport()
    expect(page.locator(".held .verdict-line")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
