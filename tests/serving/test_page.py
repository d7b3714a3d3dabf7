"""The web page in a browser: asking, reading answers and passages, keyboard, screen readers and widths."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from fdarx_core.rag.quotes import NO_MODEL
from tests.serving.local_service import LocalBackend, service
from tests.serving.page_server import ANSWER, MARKUP, PASSAGES, SECTION, SHARED, PageServer

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from playwright.sync_api import BrowserContext, Page, expect

from tests.serving.page_server import QUESTION, ask, reads

pytestmark = pytest.mark.service
SET_ID = "00000000-0000-4000-8000-000000000010"


def test_an_answer_streams_in_and_a_citation_opens_its_passage_highlighted_in_its_section(
    page: Page, server: PageServer
) -> None:
    server.plays(pause_s=0.05)
    page.get_by_label("Question", exact=True).press_sequentially(QUESTION)
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".passages li")).to_have_count(4)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(page.locator(".answer")).to_contain_text("The recommended dose")
    assert len(page.locator(".answer").inner_text()) < len(ANSWER)

    expect(page.locator("article")).to_have_attribute("data-state", "answered")
    assert page.locator(".answer").text_content() == reads(ANSWER)
    expect(page.locator(".passages .cited")).to_have_count(3)
    expect(page.locator(".made")).to_contain_text("Model tiny · prompts answer_with_citations version 3 · index labels")
    expect(page.get_by_role("button", name="Ask")).to_be_visible()

    page.locator(".answer .citation").first.click()
    marked = page.locator("#panel mark")
    expect(page.locator("#panel-body")).to_contain_text(SECTION[2][1][:40])
    assert marked.text_content() == PASSAGES[0][3]
    expect(marked).to_be_in_viewport(ratio=1)
    assert page.locator("#panel-body").evaluate("body => body.scrollTop") > 0
    facts = page.locator("#panel-facts").inner_text()
    for fact in ("velocimab", "Made Pharma", "2025-01-14", "DOSAGE & ADMINISTRATION › Recommended Dosage", SET_ID):
        assert fact in facts
    expect(page.locator("#panel-facts a")).to_have_attribute("href", re.compile("^https://dailymed"))


def test_the_page_and_the_real_http_side_understand_each_other(context: BrowserContext) -> None:
    with service(LocalBackend(postprocessors=("none",))) as real:
        page = context.new_page()
        page.goto(real.url)
        page.get_by_role("combobox", name="Only this drug").press_sequentially("velo")
        page.locator("#only-list").get_by_role("option", name="Velocimab").click()
        ask(page, "What is the recommended dose of velocimab?")
        expect(page.locator(".notice .heading")).to_have_text(NO_MODEL)
        expect(page.locator(".answer")).to_be_empty()
        expect(page.locator(".passages mark")).to_contain_text("10 mg")
        expect(page.locator("article .outcome")).to_contain_text("Passages only")
        page.locator(".passages .title").first.click()
        expect(page.locator("#panel mark")).to_contain_text("10 mg")
        expect(page.locator("#panel-body")).to_contain_text("If a dose of velocimab is missed")
        page.fill("#only", "Nosuch")
        ask(page, state="failed")
        expect(page.locator(".notice.error")).to_contain_text("No passage matches the filter.")


def test_beside_an_open_passage_another_citation_can_be_chosen(page: Page) -> None:
    ask(page)
    page.locator(".citation", has_text="[1]").first.click()
    page.locator(".citation", has_text="[2]").click()
    expect(page.locator("#panel mark")).to_have_text(PASSAGES[1][3])
    page.get_by_role("button", name="Close the passage").click()
    expect(page.locator(".citation", has_text="[2]")).to_be_focused()


def test_neighbouring_chunks_do_not_repeat_what_they_share(page: Page) -> None:
    ask(page)
    page.locator(".passages .title").nth(3).click()
    expect(page.locator("#panel-body")).to_contain_text("Discard what is left")
    told = page.locator("#panel-body").text_content() or ""
    assert told.count(SHARED.strip()) == 1 and told.count("Rinse the syringe") == 1


def test_a_drug_is_proposed_and_chosen_with_the_arrows(page: Page, server: PageServer) -> None:
    box = page.get_by_role("combobox", name="Only this drug")
    box.press_sequentially("vel")
    expect(page.locator("#only-list").get_by_role("option")).to_have_count(2)
    box.press("ArrowDown")
    box.press("ArrowDown")
    box.press("Enter")
    expect(box).to_have_value("Velorin capsules")
    expect(box).to_have_attribute("aria-expanded", "false")
    assert server.asked == []
    ask(page)
    assert server.asked[-1]["filter"] == {"drug": "Velorin capsules"}
    page.fill("#only", SET_ID)
    ask(page)
    assert server.asked[-1]["filter"] == {"set_id": SET_ID}
    page.get_by_role("button", name="Clear the filter").click()
    ask(page)
    assert "filter" not in server.asked[-1]


def test_a_drug_is_found_by_another_name_and_shown_with_what_it_stands_for(page: Page, server: PageServer) -> None:
    server.plays(stands_for="velocimab")
    box = page.get_by_role("combobox", name="Only this drug")
    box.press_sequentially("vel")
    page.locator("#only-list").get_by_role("option", name="Velorin capsules (velocimab)").click()
    expect(box).to_have_value("Velorin capsules")


def test_sections_labelers_and_dates_are_filters(context: BrowserContext, page: Page, server: PageServer) -> None:
    page.locator("#options > summary").click()
    page.locator("#section").select_option("Contraindications (41)")
    page.locator("#labeler").select_option("Made Pharma (12)")
    page.get_by_label("Labels from").fill("2020-01-31")
    expect(page.locator("#options-now")).to_have_text("Question, up to 6 passages, 3 filters")
    ask(page)
    wanted = {"section": "34070-3", "labeler": "Made Pharma", "date_from": "2020-01-31"}
    assert server.asked[0]["filter"] == wanted
    other = context.new_page()
    other.goto(page.url)
    expect(other.locator("article")).to_have_attribute("data-state", "answered")
    assert server.asked[1]["filter"] == wanted
    expect(other.locator("#section")).to_have_value("34070-3")
    expect(other.locator("#labeler")).to_have_value("Made Pharma")


def test_documents_are_chosen_by_title(context: BrowserContext, server: PageServer) -> None:
    server.plays(corpora=2)
    page = context.new_page()
    page.goto(server.url)
    page.locator("#corpus").select_option("guidelines")
    page.get_by_role("combobox", name="Only this document").fill("Stability Testing")
    page.locator("#options > summary").click()
    page.get_by_role("radio", name="Question and hypothetical answer").check()
    expect(page.get_by_role("radio", name="A strategy of this server")).to_be_visible()
    page.get_by_label("Passages to answer from").fill("3")
    ask(page)
    sent = {"question": QUESTION, "corpus": "guidelines", "filter": {"title": "Stability Testing"}}
    assert server.asked == [{**sent, "strategy": "qa_rag", "k": 3, "history": [], "stream": True}]
    page.get_by_text("Texts of the searches").click()
    expect(page.locator(".searches li")).to_have_count(2)


def test_markup_in_passages_answers_and_names_is_text(page: Page, server: PageServer) -> None:
    server.plays(markup=True, answer=f"Take it {MARKUP} twice [1].")
    page.get_by_role("combobox").press_sequentially("<sc")
    expect(page.locator("#only-list").get_by_role("option")).to_have_text(MARKUP)
    page.fill("#only", "")
    ask(page, MARKUP)
    expect(page.locator(".answer")).to_contain_text(MARKUP)
    expect(page.locator("article h2")).to_have_text(MARKUP)
    for part in (".title", ".section", ".extract"):
        expect(page.locator(f".passages {part}").first).to_contain_text(MARKUP)
    page.locator(".citation").first.click()
    expect(page.locator("#panel .here")).to_contain_text(MARKUP)
    server.plays(status=422, message=MARKUP)
    ask(page, state="failed")
    expect(page.locator(".notice").first).to_contain_text(MARKUP)
    assert page.locator("img").count() == 0 and page.locator("script").count() == 1
    assert page.evaluate("window.hacked") is None


def test_brackets_that_name_no_passage_stay_text(page: Page, server: PageServer) -> None:
    server.plays(answer="Given [9] as [see 2.4] or [1] and [2; 4], up to [75")
    ask(page)
    assert page.locator(".answer").text_content() == "Given [9] as [see 2.4] or [1] and [2][4], up to [75"
    assert page.locator(".citation").all_text_contents() == ["[1]", "[2]", "[4]"]


def test_a_copied_link_asks_the_same_again(context: BrowserContext, page: Page, server: PageServer) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#options > summary").click()
    page.get_by_role("radio", name="HyDE").check()
    page.fill("#k", "4")
    page.fill("#only", "Velocimab & co")
    question = "Dose & #1?\nIn 50% of adults + children"
    ask(page, question)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert urlsplit(link).query == "" and parse_qs(urlsplit(link).fragment)["q"] == [question]

    other = context.new_page()
    other.goto(link)
    expect(other.locator("article")).to_have_attribute("data-state", "answered")
    assert server.asked[0] == server.asked[1]
    expect(other.locator("article h2")).to_have_text(question)
    expect(other.locator("#only")).to_have_value("Velocimab & co")
    expect(other.locator("#k")).to_have_value("4")
    assert other.locator("input[name=strategy]:checked").get_attribute("value") == "hyde"


def test_an_answer_is_copied_with_its_sources(context: BrowserContext, page: Page) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page)
    page.get_by_role("button", name="Copy answer and sources").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"{QUESTION}\n\n{ANSWER}\n\n[1] Velocimab tablets, DOSAGE & ADMINISTRATION › Recommended")
    assert SET_ID in copied and "[4]" not in copied


def test_without_a_clipboard_the_link_is_there_to_be_copied(page: Page) -> None:
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    ask(page)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_label("Copy this text by hand")).to_have_value(re.compile("#q=What"))


def test_earlier_questions_stay_newest_first(page: Page) -> None:
    for question in ("First?", "Second?", "Third?"):
        ask(page, question)
    assert page.locator("article h2").all_text_contents() == ["Third?", "Second?", "First?"]
    assert page.locator("article > details[open]").count() == 1
    page.locator("article h2", has_text="First?").click()
    expect(page.locator("article").last.locator(".answer")).to_be_visible()


pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")


def test_all_of_it_works_from_the_keyboard(page: Page) -> None:
    def focused() -> str:
        return str(page.evaluate("document.activeElement.textContent.trim()"))

    expect(page.locator("#question")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    assert focused() == "Skip to the question"
    page.keyboard.press("Enter")
    page.keyboard.type("Which dose?")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("In adults.")
    page.keyboard.press("Enter")
    expect(page.locator("article")).to_have_attribute("data-state", "answered")
    for _ in range(12):
        page.keyboard.press("Tab")
        if focused() == "[1]":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("#panel mark")).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "panel-body"
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    assert focused() == "[1]"
    assert page.locator("article h2").text_content() == "Which dose?\nIn adults."


@pytest.mark.parametrize(
    "width", [360, *(pytest.param(width, marks=pytest.mark.nightly) for width in (390, 768)), 1280]
)
def test_nothing_is_wider_than_the_screen(page: Page, server: PageServer, width: int) -> None:
    server.plays(answer="Dose" * 200 + " [1]", markup=True)
    page.set_viewport_size({"width": width, "height": 780})
    page.locator("#options > summary").click()
    ask(page, "hypopseudo" * 60)
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) <= width
    page.locator(".citation").first.click()
    expect(page.locator("#panel-body")).not_to_have_attribute("aria-busy", "true")
    assert page.evaluate(wide) <= width
    assert page.locator("#panel-body").evaluate("body => body.scrollWidth - body.clientWidth") == 0


def test_on_a_phone_the_passage_fills_the_screen_and_holds_the_focus(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    ask(page)
    page.locator(".citation").first.click()
    box = page.locator("#panel").bounding_box()
    assert box and (box["x"], box["width"], box["y"] + box["height"]) == (0, 360, 780) and box["y"] > 80
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('#panel')")
    page.keyboard.press("Escape")
    expect(page.locator(".citation").first).to_be_focused()


def test_a_screen_reader_hears_the_answer_once(page: Page) -> None:
    page.evaluate(
        """window.heard = [];
        new MutationObserver(() => heard.push(document.getElementById("status").textContent))
          .observe(document.getElementById("status"), { childList: true, characterData: true, subtree: true })"""
    )
    ask(page)
    expect(page.get_by_role("status")).to_have_text(f"Answer: {ANSWER}")
    assert page.evaluate("heard.length") == 3
    assert page.locator(".answer [aria-live], .answer[aria-live]").count() == 0


CONTRAST = """() => {
  const parts = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const [r, g, b, a = 1] = parts(getComputedStyle(one).backgroundColor);
      if (a === 1) return [r, g, b];
    }
  };
  const texts = [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility() && !one.disabled &&
    [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  const ratios = texts.map((one) => {
    const [high, low] = [light(parts(getComputedStyle(one).color)), light(behind(one))].sort((a, b) => b - a);
    return [(high + 0.05) / (low + 0.05), one.className || one.tagName];
  });
  return ratios.sort((a, b) => a[0] - b[0]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", ["answered", "refused", "degraded", "failed"])
def test_every_text_has_contrast(page: Page, server: PageServer, scheme: Any, state: str) -> None:
    plays: dict[str, dict[str, Any]] = {
        "answered": {},
        "refused": {"refused": True},
        "degraded": {"degraded": "answer: failed_request", "answer": ""},
        "failed": {"status": 500},
    }
    page.emulate_media(color_scheme=scheme)
    server.plays(**plays[state])
    page.locator("#options > summary").click()
    ask(page, state=state)
    if state == "answered":
        page.locator(".citation").first.click()
        expect(page.locator("#panel mark")).to_be_visible()
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 20
    assert ratios[0][0] >= 4.5, ratios[:5]


def test_nothing_moves_for_those_who_asked_for_that(page: Page, server: PageServer) -> None:
    page.emulate_media(reduced_motion="reduce")
    server.plays(pause_s=0.1)
    ask(page, state="busy")
    moving = "getComputedStyle(document.querySelector('.answer'), '::after').animationName"
    assert page.evaluate(moving) == "none"
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) == "pulse"
