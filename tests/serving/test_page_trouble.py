"""What the page says and does where there is no whole answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.page_server import ANSWER, PASSAGES, REFUSAL, PageServer, gate_report

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.serving.page_server import QUESTION, ask, reads

pytestmark = pytest.mark.service


def test_a_passage_that_left_the_index_is_still_shown(page: Page, server: PageServer) -> None:
    ask(page)
    server.plays(passage_status=404)
    page.locator(".citation").first.click()
    expect(page.locator("#panel-body")).to_contain_text("There is no such chunk in this version of the index.")
    assert page.locator("#panel mark").text_content() == PASSAGES[0][3]


def test_stop_ends_the_answer_here_and_on_the_server(page: Page, server: PageServer) -> None:
    server.plays(pause_s=0.2)
    page.fill("#question", QUESTION)
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".answer")).to_contain_text("The rec")
    page.fill("#question", QUESTION)
    page.press("#question", "Enter")
    expect(page.get_by_role("status")).to_have_text("An answer is still being received. Stop it first.")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("article")).to_have_attribute("data-state", "stopped")
    expect(page.locator(".answer")).to_contain_text("The rec")
    for _ in range(50):
        if server.stopped:
            break
        page.wait_for_timeout(100)
    assert server.stopped == 1
    server.plays(pause_s=0)
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator("article")).to_have_attribute("data-state", "answered")
    assert len(server.asked) == 2


def test_a_key_is_asked_for_once_and_kept_in_the_tab_alone(context: BrowserContext, server: PageServer) -> None:
    server.plays(key="right-key")
    page = context.new_page()
    page.goto(server.url)
    key = page.get_by_label("Key", exact=True)
    key.fill("wrong-key")
    key.press("Enter")
    expect(page.locator("#key-problem")).to_contain_text("did not accept this key")
    key.fill("right-key")
    page.get_by_role("button", name="Continue").click()
    ask(page)
    kept = page.evaluate("[{...sessionStorage}, {...localStorage}, document.cookie, location.href]")
    assert "right-key" in kept[0].values() and kept[2] == ""
    assert "right-key" not in str(kept[1]) and "right-key" not in kept[3]
    page.get_by_role("button", name="Forget the key").click()
    page.fill("#question", QUESTION)
    page.press("#question", "Enter")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".notice").first).to_contain_text("The server requires a key.")


def test_a_question_before_the_page_is_ready_is_sent_once_it_is(context: BrowserContext, server: PageServer) -> None:
    page = context.new_page()
    held: list[Route] = []
    page.route("**/v1/corpora", lambda route: held.append(route))
    page.goto(server.url)
    page.fill("#question", QUESTION)
    page.press("#question", "Enter")
    expect(page.get_by_role("status")).to_contain_text("The service is not ready yet.")
    held[0].continue_()
    expect(page.locator("article")).to_have_attribute("data-state", "answered")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "message", "told"),
    [
        (404, "No label has the drug 'Nosuch'.", "No passage matches the filter."),
        (413, "The question has 100,000 characters; 4,000 are the most.", "The question is too long"),
        (422, "k: at most 24.", "The server rejects this question."),
        (500, "", "The server failed (500)."),
        (503, "The index is being loaded.", "The service is busy, or is still starting."),
        (504, "No answer in 30 s.", "The answer took too long."),
    ],
)
def test_errors_are_told_plainly_and_can_be_tried_again(
    page: Page, server: PageServer, status: int, message: str, told: str
) -> None:
    server.plays(status=status, message=message)
    ask(page, state="failed")
    expect(page.locator(".notice.error")).to_contain_text(told)
    expect(page.locator(".notice.error")).to_contain_text(message)
    server.plays(status=200)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("article")).to_have_attribute("data-state", "answered")
    expect(page.locator(".notice.error")).to_have_count(0)


def test_a_server_that_asks_to_wait_is_waited_for(page: Page, server: PageServer) -> None:
    server.plays(status=429, message="30 questions a minute are the most.", retry_after=2)
    ask(page, state="failed")
    expect(page.locator(".notice.error")).to_contain_text("Too many questions in a short time.")
    expect(page.get_by_role("button", name="Try again in 2 s")).to_be_disabled()
    server.plays(status=200)
    page.get_by_role("button", name="Try again", exact=True).click()
    expect(page.locator("article")).to_have_attribute("data-state", "answered")


def test_a_network_that_is_down_is_told(context: BrowserContext, page: Page) -> None:
    context.set_offline(True)
    ask(page, state="failed")
    expect(page.locator(".notice.error")).to_contain_text("The server cannot be reached.")
    context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("article")).to_have_attribute("data-state", "answered")


@pytest.mark.parametrize("play", [{"break_after": 5}, {"stream_error": "The model's server closed the connection."}])
def test_a_stream_that_breaks_is_no_whole_answer(page: Page, server: PageServer, play: dict[str, Any]) -> None:
    server.plays(**play)
    ask(page, state="failed")
    expect(page.locator(".notice.error")).to_contain_text("The answer is incomplete.")
    expect(page.locator(".notice.error")).to_contain_text(play.get("stream_error", "before the answer was complete"))
    expect(page.locator(".passages li")).to_have_count(4)
    server.plays(break_after=None, stream_error="")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("article")).to_have_attribute("data-state", "answered")
    assert page.locator(".answer").text_content() == reads(ANSWER)


def test_a_service_that_is_down_at_first_can_be_tried_again(context: BrowserContext, server: PageServer) -> None:
    def down(route: Route) -> None:
        route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": {"message": "No index yet."}})

    page = context.new_page()
    page.route("**/v1/corpora", down)
    page.goto(server.url)
    expect(page.locator("#service-notice")).to_contain_text("No index yet.")
    expect(page.locator("#send")).to_be_disabled()
    page.unroute("**/v1/corpora")
    page.get_by_role("button", name="Try again", exact=True).click()
    ask(page)
    expect(page.locator("#service-notice")).to_be_empty()


def test_a_refusal_and_a_degraded_answer_look_different(page: Page, server: PageServer) -> None:
    server.plays(answer=REFUSAL, refused=True)
    ask(page, state="refused")
    expect(page.locator(".answer")).to_have_text(REFUSAL)
    expect(page.locator("article .notice")).to_have_count(0)  # it would say the same again
    expect(page.locator(".outcome")).to_have_text("Not in the passages")
    dropped = [{"text": "Crush them.", "reason": "contradicted"}]
    server.plays(
        answer="Withheld.", refused=False, withheld=True, gate=gate_report(dropped, statements=1), citations=[]
    )
    ask(page, state="refused")
    expect(page.locator(".notice.refused").first).to_contain_text(
        "The model answered, but no statement of its answer passed"
    )
    page.get_by_text("1 statement removed: the cited passages contradict it").click()
    expect(page.get_by_text("Crush them.")).to_be_visible()

    server.plays(answer="", refused=False, withheld=False, degraded="answer: failed_request")
    ask(page, state="degraded")
    expect(page.locator(".notice.degraded")).to_contain_text("The model gave no answer. These passages were found.")
    expect(page.locator("article").first.locator(".passages li")).to_have_count(4)
    server.plays(answer=ANSWER, degraded="hyde_passage: failed_request")
    ask(page, state="degraded")
    expect(page.locator(".notice").first).to_contain_text("The model wrote no passage for the search.")
    expect(page.locator(".answer").first).to_contain_text("10 mg")


def test_what_is_wrong_with_the_form_is_said_at_its_field(page: Page, server: PageServer) -> None:
    page.fill("#question", "  \n ")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert").first).to_have_text("Type a question first.")
    expect(page.locator("#question")).to_be_focused()
    page.fill("#question", "x" * 4001)
    page.press("#question", "Enter")
    expect(page.locator("#question-problem")).to_have_text("The question has 4,001 characters; the maximum is 4,000.")
    page.fill("#question", QUESTION)
    expect(page.locator("#question-problem")).to_be_empty()
    page.locator("#options > summary").click()
    for wrong in ("0", "25", "2.5", ""):
        page.fill("#k", wrong)
        page.press("#question", "Enter")
        expect(page.locator("#k-problem")).to_have_text("Enter a whole number from 1 to 24.")
    assert server.asked == []


def test_an_answer_without_passages_says_that_the_corpus_has_none(page: Page, server: PageServer) -> None:
    server.plays(refused=True, answer="No label of Nosuchin is in this index.", found=0, citations=[])
    ask(page, state="refused")
    expect(page.locator(".answer")).to_have_text("No label of Nosuchin is in this index.")
    expect(page.locator("article .notice")).to_have_count(0)
    expect(page.locator(".outcome")).to_have_text("Not in the corpus")
    expect(page.locator("aside")).to_be_hidden()
