"""The page for every reader: by keyboard, by ear, on a phone, in the dark, without motion."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.page_server import ANSWER, PageServer

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from playwright.sync_api import Page, expect

from tests.serving.page_steps import ask

pytestmark = pytest.mark.service


def test_all_of_it_works_from_the_keyboard(page: Page) -> None:
    def focused() -> str:
        return str(page.evaluate("document.activeElement.textContent.trim()"))

    page.keyboard.press("Tab")
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


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
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
    assert box == {"x": 0, "y": 0, "width": 360, "height": 780}
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
