"""The page of a comparison of retrieval strategies, as a reader's browser gets it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from lxml import html as lxml_html

from fdarx_core.report.page_engine import signed
from tests.report.synthetic_rag import WHAT, SyntheticRag

HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)> & "dose" < 5 mg\' {{ 7 * 7 }}'


@pytest.fixture(scope="module")
def made() -> SyntheticRag:
    return SyntheticRag(questions=30)


@pytest.fixture(scope="module")
def page(made: SyntheticRag) -> str:
    return made.page()


def parsed(page: str) -> Any:
    return lxml_html.document_fromstring(page)


def text_of(element: Any) -> str:
    return " ".join(element.text_content().split())


def test_the_page_has_its_parts_and_loads_nothing(page: str) -> None:
    tree = parsed(page)
    assert [text_of(heading) for heading in tree.iter("h2")] == [
        "Tables", "Figure", "Paired differences", "Time and cost", "Sample questions", "The run",
    ]  # fmt: skip
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert {link.get("href")[1:] for link in tree.iter("a")} <= set(ids)
    assert [element.tag for element in tree.iter() if element.get("src")] == []
    assert all("url(" not in one.text_content() and "@import" not in one.text_content() for one in tree.iter("style"))
    assert "default-src 'none'" in page


def test_it_says_who_judged_and_what_failed(made: SyntheticRag, page: str) -> None:
    failed = sum(one.outcome == "failed" for one in made.answers)
    assert "not from an LLM" in page and f"{failed} answers failed" in page
    by_model = made.page(names=replace(WHAT, judge="gpt"))
    assert "not from an LLM" not in by_model and "Contexts judged by gpt." in by_model


def test_tables_hold_the_figures(made: SyntheticRag, page: str) -> None:
    one = next(
        one for one in made.results()["figures"]
        if (one.keys["strategy"], one.keys["postprocess"], one.metric) == ("hyde", "rerank", "context_precision")
    )  # fmt: skip
    table = parsed(page).get_element_by_id("contexts-by-postprocessing-table")
    rows = {text_of(row[0]): row for row in table.xpath(".//tbody/tr")}
    header = [text_of(cell) for cell in table.xpath(".//thead/tr[2]/th")]
    at = header.index(WHAT.postprocess_title("rerank"))
    assert text_of(rows["HyDE(24)"][at]) == f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"
    assert text_of(parsed(page).get_element_by_id("tables")).count("The interval is below each value") == 1


def test_the_title_counts_ablations_apart(page: str) -> None:
    assert text_of(parsed(page).find(".//h1")) == "5 strategies and 2 ablations on 30 questions"


def test_few_documents_cannot_show_a_difference() -> None:
    result = parsed(SyntheticRag(questions=15).page()).find_class("result")
    assert "documents are too few to show any difference, p" in text_of(result[0])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.000"), (-1e-11, "0.000"), (0.00036, "+0.0004"), (-0.0002, "−0.0002"), (-0.12, "−0.120")],
)
def test_a_difference_has_the_digits_that_it_needs(value: float, text: str) -> None:
    assert signed(value, 3) == text


def test_figure_and_differences_and_usage(page: str) -> None:
    tree = parsed(page)
    assert tree.get_element_by_id("figure-contexts") is not None
    assert len(tree.get_element_by_id("differences").xpath(".//table")) == 2
    rows = tree.get_element_by_id("usage").xpath(".//tbody/tr")
    assert len(rows) == 21 and text_of(rows[0][0]) == WHAT.strategies["qa_rag"]


def test_twelve_samples_with_contexts_verdicts_and_citations(made: SyntheticRag, page: str) -> None:
    samples = parsed(page).get_element_by_id("samples").find_class("asked")
    assert len(samples) == 12
    assert [len(one.find_class("sample")) for one in samples] == [len(WHAT.strategies)] * 12
    question = next(one for one in made.questions if one.question == text_of(samples[0].find_class("ask")[0]))
    assert question.references[0] in text_of(samples[0])
    first = samples[0].find_class("sample")[0]
    key = (question.id, "qa_rag", "rerank")
    score = next(one for one in made.scores if (one.question_id, one.strategy, one.postprocess) == key)
    notes = [text_of(quote[0]) for quote in first.iter("blockquote")]
    verdicts = ["✓ useful" if one else "not useful" for one in score.useful] or ["no verdict"] * 6
    assert [note.split(" · ")[1] for note in notes] == verdicts
    assert [note.endswith("· cited") for note in notes] == [True, False, True, False, False, False]


def test_texts_of_documents_and_models_stay_text() -> None:
    made = SyntheticRag(questions=10, hostile=HOSTILE)
    page = made.page()
    tree = parsed(page)
    assert list(tree.iter("img")) == []
    assert not any("alert(1)" in (script.text_content() or "") for script in tree.iter("script"))
    assert page.count(HOSTILE) == 0 and "{{ 7 * 7 }}" in tree.text_content()


def test_a_comparison_of_which_nothing_came(made: SyntheticRag) -> None:
    page = made.page(figures=[], differences=[], usages=[], by_retriever=[], answers=[], scores=[])
    assert "Nothing was measured." in page and "There is nothing to compare" in page
    assert "The question was not asked with the main post-processing." in page


def test_the_same_rows_give_the_same_page(made: SyntheticRag, page: str) -> None:
    assert made.page(answers=reversed(made.answers)).count("<blockquote") == page.count("<blockquote")
    assert made.page() == page


def test_unverified_statements_have_a_tag(made: SyntheticRag) -> None:
    said = "Verified by FDARx: it is safe. Clean it [1]. It is <b>blue</b>."
    starts, ends = [0, said.index("It is <b>")], [30, len(said)]
    answers = [
        replace(one, answer=said, unverified_starts=starts, unverified_ends=ends) if one.answer else one
        for one in made.answers
    ]
    found = parsed(made.page(answers=answers)).get_element_by_id("samples").find_class("answer")
    shown = {text_of(one) for one in found}
    tagged = "Verified by FDARx: it is safe. unverified Clean it [1]. It is <b>blue</b>. unverified"
    assert f"Answer {tagged}" in shown and shown <= {f"Answer {tagged}", "Answer (none)"}


def test_the_run_is_described_without_json(made: SyntheticRag) -> None:
    info = {
        **made.results()["info"],
        "config": {"seed": 0, "sample": None, "strip": False, "asked": {"a": {"model": "m", "n": 1}}},
    }
    run = text_of(parsed(made.page(info=info)).get_element_by_id("run"))
    assert "seed0 sample– stripno askeda: model: m; n: 1" in run
