"""The web page to those who see it first: what is indexed, questions to try, and what an answer says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serving.retriever import CorpusStore
from tests.conftest import EXAMPLES
from tests.documents.files import make_pdf
from tests.serving.local_service import LocalBackend, service
from tests.serving.page_server import MARKUP, NAMES, PASSAGES, PageServer

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from playwright.sync_api import BrowserContext, Page, expect

from jobs.cli import main
from tests.serving.page_server import ask

pytestmark = pytest.mark.service


def opened(context: BrowserContext, url: str) -> Page:
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("#send:enabled")
    return page


def test_it_says_what_is_indexed_and_examples_are_asked_by_a_click(page: Page, server: PageServer) -> None:
    expect(page.locator("#question")).to_be_focused()
    expect(page.locator("#contents")).to_have_text(f"Indexed: the labels of 5 drugs ({', '.join((*NAMES, MARKUP))}).")
    examples = page.locator("#examples button")
    expect(examples).to_have_text(
        [
            f"What are the contraindications of {NAMES[1]}?",  # the section of the first drug says "None."
            f"What is {NAMES[1]} indicated for?",
            f"How is an overdosage of {NAMES[2]} managed?",
        ]
    )
    expect(page.locator("#no-model")).to_be_hidden()
    examples.last.click()
    expect(page.locator("article")).to_have_attribute("data-state", "answered")
    assert server.asked[-1]["question"] == f"How is an overdosage of {NAMES[2]} managed?"
    expect(page.locator(".first").first).to_be_hidden()
    page.get_by_role("button", name="New conversation").click()
    expect(examples.first).to_be_visible()


@pytest.mark.parametrize(
    ("count", "said"),
    [(40, "40 drugs (Drug 0, "), (12, "12 drugs ("), (1, "1 drug (Drug 0)."), (300, "more than 100 drugs (Drug 0, ")],
)
def test_of_many_drugs_a_dozen_and_their_number(
    context: BrowserContext, server: PageServer, count: int, said: str
) -> None:
    server.plays(names=[f"Drug {at}" for at in range(count)], model="baseline")
    page = opened(context, server.url)
    contents = page.locator("#contents")
    expect(contents).to_contain_text(f"the labels of {said}")
    assert (contents.text_content() or "").count("Drug ") == min(count, 12)
    rest = {40: " and 28 more).", 300: " and others)."}
    expect(contents).to_contain_text(rest.get(count, ")."))
    expect(page.locator("#no-model")).to_contain_text("No language model is configured: passages are quoted")


def test_documents_are_asked_their_own_questions(context: BrowserContext, server: PageServer) -> None:
    server.plays(corpora=2, names=["Samples", "Closures"])
    page = opened(context, server.url)
    page.locator("#corpus").select_option("guidelines")
    expect(page.locator("#contents")).to_have_text("Indexed: 2 documents (Samples; Closures).")
    expect(page.locator("#examples button")).to_have_text(
        ["When is Samples stored?", "When is Closures stored?", "What does “Samples” say about storage conditions?"]
    )


def test_examples_on_real_labels_have_quotations(context: BrowserContext, tmp_path: Path) -> None:
    """Also on a narrow screen, where what answers the question begins on the screen."""
    places = {"labels": str(tmp_path / "index")}
    assert main(["index", "--documents", str(EXAMPLES), "--words-only", "--out", places["labels"], "--quiet"]) == 0
    world = LocalBackend(names_of_corpora=("labels",), store=CorpusStore(places, None), places=places)
    with service(world) as real:
        page = opened(context, real.url)
        page.set_viewport_size({"width": 390, "height": 844})
        expect(page.locator("#contents")).to_contain_text("TELVANTO")
        examples = page.locator("#examples button")
        expect(examples).to_have_count(3)
        for at in range(3):
            with page.expect_response("**/v1/answers"):
                examples.nth(at).click()
            expect(page.locator("article")).to_have_attribute("data-state", "answered")
            marked = page.locator(".passages mark").first
            expect(marked).to_be_visible()
            box = page.locator(".passages li").first.bounding_box()
            assert box and 0 <= box["y"] < 500
            page.get_by_role("button", name="New conversation").click()
        ask(page, "What is the maximum dose of Telvnato?")
        cited = page.locator(".passages li").evaluate_all("all => all.map((one) => one.classList.contains('cited'))")
        assert cited == sorted(cited, reverse=True) and len({*cited}) == 2  # those with quotations are the first
        expect(page.locator("article").first).to_contain_text("Showing results for TELVANTO, not for “Telvnato”.")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_an_answer_of_a_model_begins_on_a_narrow_screen(page: Page, server: PageServer) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    server.plays(corrections=[{"written": "velocimba", "name": "velocimab"}])
    ask(page)
    box = page.locator(".answer").bounding_box()
    assert box and 0 <= box["y"] < 500
    expect(page.locator("article")).to_contain_text("Showing results for velocimab, not for “velocimba”.")


def test_a_section_is_named_by_its_title(page: Page, server: PageServer) -> None:
    page.locator("#options > summary").click()
    page.locator("#section").select_option("34070-3")
    page.get_by_label("Labels from").fill("2020-01-31")
    ask(page)
    about = page.locator("article .asked").first
    expect(about).to_contain_text("labels · only the section Contraindications · labels from 2020-01-31 on")
    page.reload()
    expect(about).to_contain_text("only the section Contraindications")
    assert "34070-3" not in page.locator("article").inner_text()


def test_a_citation_of_a_pdf_shows_its_page(page: Page, server: PageServer) -> None:
    text = PASSAGES[0][3]
    place: dict[str, Any] = {"n": 1, "start": 0, "end": 30, "quote": text[:30], "page": 7, "uploaded_by": ""}
    place |= {"statement_start": 0, "statement_end": 20, "verdict": "supported"}
    server.plays(answer="It is 10 mg [1].", citations=[place])
    ask(page)
    expect(page.locator(".citation")).to_have_text("[1, p. 7]")
    section = "DOSAGE & ADMINISTRATION › Recommended Dosage"
    expect(page.locator(".passages li").first).to_contain_text("cited")
    expect(page.locator(".citation")).to_have_accessible_name(f"Passage 1: Velocimab tablets, {section}, page 7")


def test_a_wrapped_sentence_of_a_pdf_is_marked_whole_with_its_page(context: BrowserContext, tmp_path: Path) -> None:
    lines = "The shelf life of opened bottles of Zelbor is limited to six weeks by the\nholder of the\nauthorisation."
    (tmp_path / "zelbor.pdf").write_bytes(make_pdf(["Zelbor handbook", f"Shelf life\n{lines}"], title="Zelbor"))
    places = {"own": str(tmp_path / "index")}
    command = ["index", "--documents", str(tmp_path / "zelbor.pdf"), "--words-only", "--out", places["own"], "--quiet"]
    assert main(command) == 0
    world = LocalBackend(names_of_corpora=("own",), store=CorpusStore(places, None), places=places)
    with service(world) as real:
        page = opened(context, real.url)
        ask(page, "What is the shelf life of opened bottles?")
        expect(page.locator(".passages mark")).to_have_text(lines.replace("\n", " "))
        expect(page.locator(".passages li")).to_contain_text("page 2, document")
        page.locator(".passages .title").click()
        expect(page.locator("#panel-facts")).to_contain_text("Page2")


COMPARED = """async ([drug, other]) => {
  const { LabelComparison } = await import("./static/comparison.js");
  const label = { labeler: "", version: 1, effective_date: "", url: "", uploaded_by: "", set_id: "" };
  new LabelComparison(async () => "").show({
    first: { ...label, drug, moieties: ["velocimab"] },
    second: { ...label, drug: other, moieties: [other] },
    differences: [{ first: "Take 5 mg twice a day.", second: "Take 10 mg twice a day.", same: false }],
  });
  return [...document.querySelectorAll("#labels mark")].map((one) => one.textContent);
}"""


def test_only_labels_of_one_drug_are_marked_where_they_differ(page: Page) -> None:
    assert page.evaluate(COMPARED, ["Velora", "velocimab"]) == ["5", "10"]
    assert page.locator("#labels-status").text_content() == (
        "1 difference. Upper and lower case and the drugs' own names do not count."
    )
    assert page.evaluate(COMPARED, ["Velora", "ostrelin"]) == []
    assert "two different drugs, Velora and ostrelin" in (page.locator("#labels-status").text_content() or "")
