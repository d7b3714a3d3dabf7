"""What tests of the page do again and again."""

from __future__ import annotations

from playwright.sync_api import Page, expect

QUESTION = "What is the recommended dose of velocimab tablets?"


def ask(page: Page, question: str = QUESTION, state: str = "answered") -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")
    expect(page.locator("article").first).to_have_attribute("data-state", state)


def reads(answer: str) -> str:
    """An answer as the page's text has it: each citation a button."""
    return answer.replace("[1, 3]", "[1][3]")
