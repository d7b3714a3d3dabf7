"""What an answer says of labels of its drug that have other numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import fdarx_core as fdarx
from fdarx_core.rag.label_differences import differences_text, with_differences
from fdarx_core.records import Citation, NumberDifference, OtherSentence, SearchHit
from fdarx_core.retrieval.index import IndexStore
from tests.rag.found import chunk, disagreeing_labels


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> fdarx.Index:
    place: Path = tmp_path_factory.mktemp("index")
    store = IndexStore(str(place))
    store.commit([store.write_segment(disagreeing_labels())])
    return fdarx.Index.open(place)


def test_an_answer_ends_with_the_numbers_of_other_labels(index: fdarx.Index) -> None:
    answer = index.answer("What is the maximum daily dose of veloran?")
    _, said, note = answer.text.split("\n\n")
    assert "2,550 mg" in said and note == "Other labels differ from 2,550 mg: 2,000 mg (2005-03-01)."
    [citation] = [one for one in answer.citations if one.differences]
    [difference] = citation.differences
    assert citation.hit.set_id == "new" and difference.sentence in citation.quote
    assert [(one.set_id, one.effective_date) for one in difference.others] == [
        ("old", "2005-03-01"),
        ("older", "2003-03-01"),
    ]
    assert answer.text[slice(*citation.statement)] == said.split("\n")[0]


def test_an_answer_without_such_a_number_says_nothing_of_them(index: fdarx.Index) -> None:
    answer = index.answer("How are veloran tablets stored?", k=1)
    assert "25 degrees" in answer.text and "differ" not in answer.text
    assert not any(one.differences for one in answer.citations)


SENTENCE = "Take 10 mg for 10 days, and at most 30 mg of it in 1 day"


@pytest.mark.parametrize(
    ("statement", "other", "span", "note"),
    [
        ("At most 30 mg are taken [1].", SENTENCE.replace("30", "40"), None, "30 mg: 40 mg (2020-01-01)"),
        ("Take it for 1 day [1].", SENTENCE.replace("30", "40"), None, ""),
        ("It is taken in 2023 [30].", SENTENCE.replace("30", "40"), None, ""),
        ("At most 30 mg are taken [1].", SENTENCE.replace("30", "40"), (0, 20), ""),
        ("Take 10 mg [1].", SENTENCE.replace("10 days", "7 days"), None, ""),
        ("Take 10 mg for 10 days [1].", SENTENCE.replace("10 days", "7 days"), None, "10 days: 7 days (2020-01-01)"),
        ("Take 10 mg [1].", SENTENCE.replace("10", "7"), None, "10 mg and 10 days: 7 mg and 7 days (2020-01-01)"),
    ],
)
def test_only_numbers_that_statement_and_place_have_count(
    statement: str, other: str, span: tuple[int, int] | None, note: str
) -> None:
    difference = NumberDifference(SENTENCE, [OtherSentence("b", "Velora", "2020-01-01", other)])
    hit = SearchHit(chunk("c", f"Adults. {SENTENCE}"), 1.0, differences=[difference])
    start, end = span or (0, len(hit.text))
    citations = with_differences(statement, [Citation(1, hit, start, end, (0, len(statement)), "supported")])
    assert [one.differences for one in citations] == [[difference] if note else []]
    assert differences_text(statement, citations) == (f"Other labels differ from {note}." if note else "")
