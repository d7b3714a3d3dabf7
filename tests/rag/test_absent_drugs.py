"""Questions to drugs that have no label in an index."""

from __future__ import annotations

from pathlib import Path

import pytest

import fdarx_core as fdarx
from fdarx_core.labels.lexicon import Lexicon
from fdarx_core.rag.search import find_absent_drugs
from fdarx_core.records import Chunk, LabelVersion, Product
from fdarx_core.retrieval.index import IndexStore

TEXTS = {
    "Eliquis": ("apixaban", "The dose of Eliquis is 5 mg twice daily. Reduce it with ketoconazole or furosemide."),
    "Glucophage": (
        "metformin",
        "The dose of Glucophage is 500 mg twice daily. Furosemide increases it, birth control pills lower it.",
    ),
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> fdarx.Index:
    place: Path = tmp_path_factory.mktemp("index")
    store, chunks = IndexStore(str(place)), list[Chunk]()
    for at, (name, (moiety, text)) in enumerate(TEXTS.items()):
        product = Product([name], [moiety], [""], [moiety], [""])
        label = LabelVersion(1, f"2024-01-0{at + 1}", "", "", [moiety], [""], [product])
        chunks.append(Chunk(str(at), str(at), name, "", "DOSAGE", text, 0, -1, str(at), name, "34068-7", label))
    store.commit([store.write_segment(chunks)])
    return fdarx.Index.open(place)


@pytest.mark.parametrize(
    ("question", "medicines", "alone"),
    [
        ("What is the dose of Xarelto?", ["rivaroxaban"], True),
        ("What is the dose of Xareltto?", ["rivaroxaban"], True),
        ("furosemide dose for edema", ["furosemide"], True),
        ("Is Eliquis taken with ketoconazole?", ["ketoconazole"], False),
        ("Do birth control pills lower it?", [], False),
        ("What is the dose of Eliquis with CYP2C9*2/*3?", [], False),
        ("What is the dose of Eliquis?", [], False),
        ("What is the dose of apixban?", [], False),
        ("Does it raise creatinine or blood glucose in elderly patients?", [], False),
        ("", [], False),
    ],
)
def test_medicines_without_a_label_are_recognized(
    index: fdarx.Index, question: str, medicines: list[str], alone: bool
) -> None:
    found = find_absent_drugs(index.reader, question)
    assert [one.medicine for one in found] == medicines
    assert all(one.alone == alone for one in found)


def test_a_question_to_an_absent_drug_is_refused_with_what_is_near(index: fdarx.Index) -> None:
    answer = index.answer("What is the usual dose of furosemide?")
    assert answer.refused and not answer.contexts and not answer.citations
    assert answer.text == (
        "No label of furosemide is in this index. The number of labels of other drugs that mention it is 2: "
        "Glucophage (2024-01-02), Eliquis (2024-01-01)."
    )


def test_beside_a_drug_that_is_there_the_absence_is_said(index: fdarx.Index) -> None:
    answer = index.answer("What is the dose of Eliquis, and of Xarelto?")
    assert {hit.drug for hit in answer.contexts} == {"Eliquis"}
    assert answer.text.endswith("No label of Xarelto (rivaroxaban) is in this index.")


def test_a_filter_takes_precedence(index: fdarx.Index) -> None:
    assert index.answer("Is it reduced with furosemide?", drug="Eliquis").contexts


def test_only_rare_words_are_compared_with_rare_substances() -> None:
    names = Lexicon([("Veloran", "veloran"), ("Velo Duo", "veloran")], [("caps", "buffer")])
    assert (names.medicine(("caps",)), names.substance("caps")) == ("", "buffer")
    assert (names.substance("veloram"), names.substance("veluram"), names.substance("xeloran")) == ("veloran", "", "")
    assert names.medicine(("velo", "duo")) == "veloran"
