"""Conversations on the page: follow-ups, history in the browser, located citations, comparisons, saved answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.review.review_set import open_review
from jobs.cli import main
from serving.retriever import CorpusStore
from tests.serving.local_service import LocalBackend, service
from tests.serving.page_server import ANSWER, PASSAGES, PageServer, gate_report

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from markdown_it import MarkdownIt
from playwright.sync_api import BrowserContext, Dialog, Page, expect

from tests.serving.page_server import QUESTION, ask

pytestmark = pytest.mark.service
FOLLOW_UP = "And in renal impairment?"


def place(quote: str, statement: str, n: int = 1, answer: str = ANSWER, verdict: str = "supported") -> dict[str, Any]:
    """A citation of a part of a passage, by a part of the answer."""
    start, said = PASSAGES[n - 1][3].index(quote), answer.index(statement)
    found = {"n": n, "start": start, "end": start + len(quote), "quote": quote, "page": 0, "verdict": verdict}
    return found | {"statement_start": said, "statement_end": said + len(statement)}


def question_of(page: Page) -> list[str]:
    return page.locator("article h2").all_text_contents()


def test_a_follow_up_is_sent_with_the_turns_before_it(page: Page, server: PageServer) -> None:
    ask(page)
    expect(page.get_by_label("Next question")).to_have_value("")
    server.plays(standalone="What is the recommended dose of velocimab tablets in renal impairment?")
    ask(page, FOLLOW_UP)
    assert server.asked[0]["history"] == []
    assert server.asked[1]["history"] == [{"question": QUESTION, "answer": ANSWER}]
    expect(page.locator("article").first).to_contain_text("Answered as: What is the recommended dose of velocimab")
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator("article")).to_have_count(0)
    server.plays(standalone="")
    ask(page, "Which dose?")
    assert server.asked[2]["history"] == []


def test_earlier_conversations_are_read_again_from_this_browser(page: Page, server: PageServer) -> None:
    ask(page)
    ask(page, FOLLOW_UP)
    page.get_by_role("button", name="New conversation").click()
    ask(page, "How is it stored?")
    page.reload()
    expect(page.locator("article h2")).to_have_text("How is it stored?")
    assert len(server.asked) == 3
    page.get_by_text("Earlier conversations").click()
    expect(page.locator("#earlier-list li")).to_have_count(2)
    page.locator("#earlier-list").get_by_role("button", name=QUESTION, exact=True).click()
    assert question_of(page) == [FOLLOW_UP, QUESTION]
    page.locator("article").first.locator(".citation").first.click()
    expect(page.locator("#panel mark").first).to_be_visible()
    page.keyboard.press("Escape")
    ask(page, "And for children?")
    assert [turn["question"] for turn in server.asked[3]["history"]] == [QUESTION, FOLLOW_UP]


def test_conversations_are_deleted_one_by_one_or_all(page: Page) -> None:
    ask(page)
    page.get_by_role("button", name="New conversation").click()
    ask(page, "How is it stored?")
    page.get_by_text("Earlier conversations").click()
    page.get_by_role("button", name=f"Delete the conversation “{QUESTION}”").click()
    expect(page.locator("#earlier-list li")).to_have_count(1)

    def accept(dialog: Dialog) -> None:
        assert dialog.message == "Delete 1 conversation from this browser?"
        dialog.accept()

    page.once("dialog", accept)
    page.get_by_role("button", name="Delete all").click()
    expect(page.locator("#earlier")).to_be_hidden()
    expect(page.locator("article")).to_have_count(0)
    assert page.evaluate("localStorage.length") == 0


def test_where_the_browser_is_full_the_oldest_conversation_goes(page: Page) -> None:
    old = {"id": "old", "at": "2020-01-01", "turns": [{"ask": {"question": "Old?"}, "at": "", "answer": {}}]}
    page.evaluate("old => localStorage.setItem('fdarx-conversation-old', JSON.stringify(old))", old)
    page.evaluate("localStorage.setItem('other', 'x'.repeat(5 * 1024 * 1024 - 2000))")
    ask(page)
    assert page.evaluate("Object.keys(localStorage)") == ["other"]
    page.evaluate("old => localStorage.setItem('fdarx-conversation-old', JSON.stringify(old))", old)
    page.evaluate("localStorage.removeItem('other')")
    ask(page, FOLLOW_UP)
    assert len(page.evaluate("Object.keys(localStorage)")) == 2


@pytest.mark.parametrize("width", [390, 1280])
def test_a_citation_opens_its_passage_at_the_cited_place(page: Page, server: PageServer, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    quote = "- body weight 55 kg or less"
    second = ANSWER[ANSWER.index("Lower it") : ANSWER.index(" [1, 3]") + len(" [1, 3]")]
    server.plays(citations=[place("10 mg taken orally twice daily", "The recommended"), place(quote, second)])
    ask(page)
    page.locator(".citation").nth(1).click()
    marked = page.locator("#panel mark")
    expect(marked).to_have_text(quote)
    expect(page.locator("#panel-body")).not_to_have_attribute("aria-busy", "true")
    expect(marked).to_be_in_viewport(ratio=1)
    panel, question = page.locator("#panel").bounding_box(), page.locator("article h2").bounding_box()
    assert panel and question
    if width == 1280:  # beside question, form and answer
        for part in ("article h2", "#question", ".answer"):
            box = page.locator(part).bounding_box()
            assert box and box["x"] + box["width"] <= panel["x"]
    else:
        assert panel["y"] > 100
        page.get_by_role("button", name="Close the passage").click()
        expect(page.locator("#panel")).to_be_hidden()


def test_the_place_is_marked_behind_characters_of_two_units(page: Page, server: PageServer) -> None:
    answer = "𝛼 is dosed twice a day [1]. Weight counts [1]."
    cited = place("- age 75 years or older", "Weight counts [1]", answer=answer)
    server.plays(answer=answer, citations=[cited])
    ask(page)
    page.locator(".citation").nth(1).click()
    expect(page.locator("#panel mark")).to_have_text("- age 75 years or older")
    page.locator(".citation").nth(0).click()
    expect(page.locator("#panel mark")).to_have_count(0)


def test_unverified_statements_are_marked_and_removed_ones_counted(page: Page, server: PageServer) -> None:
    statement = "Do not take a missed dose together with the next one [2]"
    dropped = [{"text": "It costs 3 dollars.", "reason": "number"}, {"text": "It is blue.", "reason": "contradicted"}]
    server.plays(
        citations=[place("Do not double the next dose", statement, n=2, verdict="undecided")],
        statements=statements(ANSWER, supported="The recommended", undecided=statement, unsupported="Lower it to"),
        gate=gate_report(dropped, statements=7, supported=2, unsupported=1, undecided=1, uncited=1),
    )
    ask(page)
    text = page.locator(".answer").inner_text()
    assert text.endswith("[2]unverified.") and text.count("unverified") == 1
    assert "Lower it tonot supported " in text
    counts = "7 statements checked by tiny: 2 supported, 1 not supported, 1 unverified, 1 without a citation."
    expect(page.locator(".gate")).to_contain_text(counts)
    page.get_by_text("2 statements removed: the cited passages lack one of its numbers; the cited").click()
    expect(page.get_by_text("It costs 3 dollars.")).to_be_visible()


def statements(answer: str, **said: str) -> list[dict[str, Any]]:
    """The statements of an answer, by verdict."""
    found = [
        {"start": answer.index(text), "end": answer.index(text) + len(text), "verdict": verdict, "citations": []}
        for verdict, text in said.items()
    ]
    return sorted(found, key=lambda one: one["start"])


FORGED = "Verified by FDARx ✓ 𝛼: it is safe in pregnancy <span class='unverified'>no</span> (verified)."


def test_each_statement_without_a_citation_has_a_tag(page: Page, server: PageServer) -> None:
    heading, cited = "## Supported statements", "It is 10 mg [1]."
    answer = f"{heading}\n\n{FORGED} {cited}"
    found = statements(answer, unchecked=heading, uncited=FORGED, supported=cited)
    server.plays(answer=answer, statements=found, citations=[])
    ask(page)
    expect(page.locator(".answer .unverified")).to_have_text(["not checked", "no citation"])
    text = page.locator(".answer").text_content()
    assert text == f"{heading}not checked\n\n{FORGED}no citation {cited}"
    page.reload()
    expect(page.locator(".answer .unverified")).to_have_text(["not checked", "no citation"])


def test_an_answer_that_is_stopped_has_the_tags_of_what_was_received(page: Page, server: PageServer) -> None:
    answer = f"{FORGED} It is 10 mg [1]."
    server.plays(answer=answer, statements=statements(answer, uncited=FORGED), break_after=len(FORGED) // 7 + 1)
    ask(page, state="failed")
    expect(page.locator(".answer .unverified")).to_have_text(["no citation"])


def test_a_stored_answer_without_verdicts_is_unverified_as_a_whole(page: Page, server: PageServer) -> None:
    ask(page)
    page.evaluate("""() => {
        const key = Object.keys(localStorage).find((one) => one.startsWith("fdarx-conversation-"));
        const stored = JSON.parse(localStorage.getItem(key));
        delete stored.turns[0].answer.statements;
        delete stored.turns[0].answer.gate.uncited;
        localStorage.setItem(key, JSON.stringify(stored));
    }""")
    page.reload()
    expect(page.locator(".answer .unverified")).to_have_text(["unverified"])
    assert "0 without a citation" in saved(page, "Save as Markdown")


def test_a_comparison_has_a_column_for_each_drug(page: Page, server: PageServer) -> None:
    first, second = "Velocimab:\nTake 10 mg twice a day [1].", "Ostrelin:\nShake the bottle [4]."
    answer = f"{first}\n\n{second}"
    of = {"moieties": ["velocimab"], "refused": False}
    server.plays(
        answer=answer,
        statements=statements(answer, uncited="Take 10 mg twice a day [1].", undecided="Shake the bottle [4]."),
        columns=[
            {"drug": "Velocimab", "answer_start": 11, "answer_end": len(first), **of},
            {"drug": "Ostrelin", "answer_start": answer.index("Shake"), "answer_end": len(answer), **of},
        ],
    )
    ask(page)
    expect(page.locator(".drug h3")).to_have_text(["Velocimab", "Ostrelin (velocimab)"])
    said = ["Take 10 mg twice a day [1].no citation", "Shake the bottle [4].unverified"]
    assert page.locator(".drug > div").all_inner_texts() == said
    boxes = [page.locator(".drug").nth(at).bounding_box() for at in (0, 1)]
    assert boxes[0] and boxes[1] and boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]
    page.set_viewport_size({"width": 390, "height": 800})
    boxes = [page.locator(".drug").nth(at).bounding_box() for at in (0, 1)]
    assert boxes[0] and boxes[1] and boxes[0]["y"] < boxes[1]["y"] and boxes[0]["x"] == boxes[1]["x"]


def test_two_labels_stand_side_by_side_with_the_words_marked_that_differ(context: BrowserContext) -> None:
    with service(LocalBackend(postprocessors=("none",))) as real:
        page = context.new_page()
        page.goto(real.url)
        ask(page, "What is the dose of velocimab, and what is the dose of ostrelin?")
        page.get_by_role("button", name="Compare labels").click()
        expect(page.locator("#labels-status")).to_contain_text("two different drugs, Velocimab and Ostrelin")
        columns = page.locator("#labels .heads h3").all_inner_texts()
        assert sorted(columns) == ["Ostrelin", "Velocimab"]
        expect(page.locator("#labels .apart")).not_to_have_count(0)
        expect(page.locator("#labels mark, #labels .differs")).to_have_count(0)
        page.locator("#labels-second").select_option(index=0)
        expect(page.locator("#labels-status")).to_have_text("The texts do not differ.")
        page.keyboard.press("Escape")
        expect(page.locator("#labels")).to_be_hidden()


def saved(page: Page, name: str) -> str:
    with page.expect_download() as download:
        page.locator("article").first.get_by_role("button", name=name).click()
    assert download.value.suggested_filename.startswith("fdarx-answer-20")
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_an_answer_is_saved_with_all_that_it_was_made_from(page: Page, server: PageServer) -> None:
    ask(page)
    dropped = [{"text": "x", "reason": "drug"}]
    server.plays(gate=gate_report(dropped, statements=2, supported=1))
    ask(page, FOLLOW_UP)
    record = json.loads(saved(page, "Save as JSON"))
    assert record["request"]["history"] == [{"question": QUESTION, "answer": ANSWER}]
    assert record["request"]["question"] == record["reply"]["question"] == FOLLOW_UP
    assert [one["text"] for one in record["reply"]["passages"]] == [one[3] for one in PASSAGES]
    text = saved(page, "Save as Markdown")
    for part in (
        f"# {FOLLOW_UP}\n", f"- {QUESTION}\n", ANSWER,
        "2 checked by tiny: 1 supported, 0 not supported, 0 unverified, 0 without a citation, 1 removed.",
        "removed (the cited passages are not about its drug): x", "### [4] Ostrelin oral solution (not cited)",
        "- Effective date: 2025-01-14\n- Version: 3\n- Set id: 0000", "> - age 75 years or older\n",
        "- Model: tiny\n- Prompts: answer_with_citations version 3 (tiny)\n", "- Strategy: question\n",
        "- Index version: 20250114-3f9c\n",
    ):  # fmt: skip
        assert part in text


HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> &lt;b&gt; ![x](http://evil.test/x.png) [link](http://evil.test)"
    " <http://evil.test> www.evil.test **bold** _em_ `code` a_b_c [1]: [1](http://evil.test)"
)


def test_markdown_shows_text_as_it_is(page: Page, server: PageServer) -> None:
    lines = ["# Heading", "> quoted", "- # item", "Title", "---", "- 10 mg [1]", "[x]: http://evil.test 't'", "~~~"]
    claim = f"Verified by FDARx: {HOSTILE}"
    answer = "\n".join((claim, *lines, "| Drug |", "|---|", "| velocimab | safe |"))
    found = statements(answer, uncited=claim, supported="10 mg [1]", undecided="| velocimab | safe |")
    dropped = [{"text": HOSTILE, "reason": "contradicted"}]
    gate = gate_report(dropped, statements=4, supported=1, undecided=1, uncited=1)
    server.plays(answer=answer, statements=found, gate=gate, markup=True)
    ask(page, HOSTILE)
    text = saved(page, "Save as Markdown")
    assert "**[unverified]** Verified by FDARx: &lt;script>" in text and "\n- 10 mg [1]\n" in text
    assert "\n| **[unverified]**  velocimab | safe |" in text and "- no citation: Verified by FDARx: &lt;" in text
    assert not re.search(r"http://evil|www\.evil", text)  # GitHub makes links of bare addresses
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)
    assert not re.search(r"<(script|img|em|code|pre|s|a)\b", html)
    assert html.count("<strong>") == html.count("<strong>[unverified]</strong>") == 2
    assert re.findall(r"<h[12]>(.*?)</h", html)[1:] == ["Answer", "Statements", "Passages", "How the answer was made"]
    assert "&lt;img src=x onerror=alert(1)&gt; &amp;lt;b&amp;gt; ![x](http://evil.test/x.png)" in html


def test_a_copied_answer_has_marks(page: Page, server: PageServer) -> None:
    server.plays(statements=statements(ANSWER, uncited="Do not take a missed dose together with the next one [2]"))
    ask(page)
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.get_by_role("button", name="Copy answer and sources").click()
    assert "\n\n[unverified] Do not take a missed dose" in page.evaluate("window.copied")


def test_a_judgment_of_an_answer_is_imported_into_a_review(context: BrowserContext, tmp_path: Path) -> None:
    file = tmp_path / "feedback.jsonl"
    with service(LocalBackend(postprocessors=("none",)), feedback=file) as real:
        page = context.new_page()
        page.goto(real.url)
        ask(page, "What is the recommended dose of velocimab?")
        page.get_by_role("button", name="Bad answer").click()
        expect(page.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".feedback")).to_contain_text("Your judgment is stored")
        assert [json.loads(line)["verdict"] for line in file.read_text().splitlines()] == ["bad"]
        page.get_by_label("Comment").fill("It does not say with what to take it.")
        page.get_by_role("button", name="Send comment").click()
        expect(page.locator(".feedback")).to_contain_text("Your comment is stored too")
    assert main(["review", "import", str(tmp_path / "review"), str(file)]) == 0
    [mark] = open_review(str(tmp_path / "review")).annotations()
    assert (mark.annotator, mark.value, mark.remark) == ("reader", "bad", "It does not say with what to take it.")


def test_documents_are_added_where_the_service_takes_them(context: BrowserContext, page: Page, tmp_path: Path) -> None:
    expect(page.locator("#upload")).to_be_hidden()
    (tmp_path / "first.txt").write_text("Stability studies of tablets run for twelve months.")
    places = {"own": str(tmp_path / "index")}
    command = ["index", "--documents", str(tmp_path / "first.txt"), "--words-only", "--out", places["own"], "--quiet"]
    assert main(command) == 0
    world = LocalBackend(names_of_corpora=("own",), store=CorpusStore(places, None), places=places)
    with service(world, upload=True) as real:
        other = context.new_page()
        other.goto(real.url)
        other.get_by_text("Add documents to this corpus").click()
        expect(other.get_by_role("button", name="Add", exact=True)).to_be_disabled()
        (tmp_path / "samples.md").write_text("Samples of each lot are kept for 7 years.")
        other.set_input_files("#upload-file", tmp_path / "samples.md")
        other.get_by_role("button", name="Add", exact=True).click()
        expect(other.locator("#upload-status")).to_contain_text("1 document of samples.md added to own", timeout=60_000)
        ask(other, "How long are samples of each lot kept?")
        expect(other.locator("article")).to_contain_text("7 years")
        expect(other.locator(".passages .uploaded")).to_have_text("uploaded by (anonymous)")
        expect(other.locator(".notice.uploads")).to_contain_text("[1] by (anonymous)")
        assert "(cited, uploaded by (anonymous))" in saved(other, "Save as Markdown")
        assert json.loads(saved(other, "Save as JSON"))["reply"]["citations"][0]["uploaded_by"] == "(anonymous)"
        other.locator(".passages .title").first.click()
        expect(other.locator("#panel-facts")).to_contain_text("Uploaded by")


def test_a_conversation_in_a_new_tab_begins_empty(context: BrowserContext, page: Page, server: PageServer) -> None:
    ask(page)
    other = context.new_page()
    other.goto(server.url)
    other.wait_for_selector("#send:enabled")
    expect(other.locator("article")).to_have_count(0)
    other.get_by_text("Earlier conversations (1)").click()
    other.locator("#earlier-list .title").click()
    expect(other.locator("article h2")).to_have_text(QUESTION)
