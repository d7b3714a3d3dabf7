"""Questions to drugs that have no label in an index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fdarx_core as fdarx
from fdarx_core.rag.search import find_absent_drugs
from fdarx_core.records import Chunk, LabelVersion, Product
from fdarx_core.retrieval.index import IndexStore
from tests.labels.rrf import write_names
from tests.llm.loopback_server import LoopbackServer, text_of
from tests.rag.scopes import asks_for_scope

TEXTS = {
    "Eliquis": ("apixaban", "The dose of Eliquis is 5 mg twice daily. Reduce it with ketoconazole or furosemide."),
    "Glucophage": (
        "metformin",
        "The dose of Glucophage is 500 mg twice daily. Furosemide increases it, birth control pills lower it.",
    ),
}


@pytest.fixture
def with_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_names(tmp_path, {"rivaroxaban": "Xarelto", "furosemide": "", "ketoconazole": "", "apixaban": "Eliquis"})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


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


@pytest.mark.usefixtures("with_names")
@pytest.mark.parametrize(
    ("question", "medicines", "alone"),
    [
        ("What is the dose of Xarelto?", ["rivaroxaban"], True),
        ("What is the dose of rivaroxabn?", ["rivaroxaban"], True),
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


@pytest.mark.usefixtures("with_names")
def test_a_question_to_an_absent_drug_is_refused_with_what_is_near(index: fdarx.Index) -> None:
    answer = index.answer("What is the usual dose of furosemide?")
    assert answer.refused and not answer.contexts and not answer.citations
    assert answer.text == (
        "No label of furosemide is in this index. Labels of other drugs mention it: "
        "Glucophage (2024-01-02), Eliquis (2024-01-01)."
    )


@pytest.mark.usefixtures("with_names")
def test_no_model_writes_texts_to_search_with_for_a_question_that_is_refused(index: fdarx.Index) -> None:
    reply = '{"reason": "It is about one drug.", "scope": "named"}'
    with LoopbackServer(lambda body: reply) as server, fdarx.Model("tiny", base_url=server.openai_url) as model:
        answer = index.answer("What is the usual dose of furosemide?", model=model, strategy="qa_rag")
    assert answer.refused and all(asks_for_scope(call.body) for call in server.calls)


@pytest.mark.usefixtures("with_names")
def test_beside_a_drug_that_is_there_the_absence_is_said(index: fdarx.Index) -> None:
    answer = index.answer("What is the dose of Eliquis, and of Xarelto?")
    assert {hit.drug for hit in answer.contexts} == {"Eliquis"}
    assert answer.text.endswith("No label of Xarelto (rivaroxaban) is in this index.")


@pytest.mark.usefixtures("with_names")
def test_a_filter_takes_precedence(index: fdarx.Index) -> None:
    assert index.answer("Is it reduced with furosemide?", drug="Eliquis").contexts


def test_without_rxnorm_s_names_nothing_is_answered_about_another_drug(
    index: fdarx.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    question = "What is the dose of Xarelto?"
    assert find_absent_drugs(index.reader, question) == []
    assert index.answer(question).text.startswith("No model is configured: these are passages, not an answer.")

    def reply(body: Mapping[str, Any]) -> str:
        prompt = text_of(body["messages"][-1])
        if asks_for_scope(body):
            return '{"reason": "It is about one drug.", "scope": "named"}'
        if "<claim>" not in prompt:
            return "The dose of Xarelto is 500 mg twice daily [1]."
        shown = range(1, prompt.count("<passage number=") + 1)
        said = [{"passage": at, "reason": "of Eliquis", "quote": "", "verdict": "other_drug"} for at in shown]
        return json.dumps({"verdicts": said})

    with LoopbackServer(reply) as server, fdarx.Model("tiny", base_url=server.openai_url) as model:
        answer = index.answer(question, model=model)
    assert answer.withheld and not answer.citations
