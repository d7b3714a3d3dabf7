"""`fdarx_core.Index`: searching an index and answering from it, in plain Python."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fdarx_core as fdarx
from fdarx_core.llm import Unparsable
from fdarx_core.rag.quotes import NO_MODEL
from fdarx_core.records import Chunk, LabelVersion
from fdarx_core.retrieval.index import IndexStore
from fdarx_core.storage import StorageError
from jobs import cli
from tests.conftest import REPOSITORY
from tests.documents.files import make_pdf
from tests.llm.loopback_server import LoopbackServer
from tests.rag.scopes import NAMED, asks_for_scope
from tests.retrieval.index_chunks import label

CHUNKS = [
    *label("s1", "Velora", [("2 DOSE", "The maximum dose of Velora is 40 mg daily."), ("4", "Do not use in anuria.")]),
    *label("s2", "Mirapan", [("2 DOSE", "The maximum dose of Mirapan is 50 mg."), ("8", "Safe in renal impairment.")]),
]
QUESTION = "What is the maximum dose of Velora?"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    store = IndexStore(str(folder))
    store.commit([store.write_segment(CHUNKS)])
    return folder


@pytest.fixture
def index(place: Path) -> fdarx.Index:
    return fdarx.Index.open(place)


def test_search(index: fdarx.Index) -> None:
    hits = index.search(QUESTION, k=6)
    assert [(hit.text, hit.set_id, hit.drug) for hit in hits] == [(one.text, "s1", "Velora") for one in CHUNKS[:2]]
    assert hits[0].score >= hits[1].score
    assert (hits[0].title, hits[0].section, hits[0].chunk.document_id) == ("Velora", "2 DOSE", "s1")
    assert {hit.set_id for hit in index.search("maximum dose", k=2)} == {"s1", "s2"}
    assert [hit.set_id for hit in index.search("maximum dose", drug="velora")] == ["s1"]
    assert [hit.set_id for hit in index.search("maximum dose", set_id="s1")] == ["s1"]
    assert [hit.set_id for hit in index.search("maximum dose", exclude=["s2"])] == ["s1"]
    assert index.search("zebra") == [] and len(index) == 4
    assert [hit.set_id for hit in index.search("maximum dose", retriever="tfidf", title="Velora")] == ["s1"]


def test_what_cannot_be_searched(index: fdarx.Index, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no retriever 'cosine' here; there are bm25, tfidf.*built without"):
        index.search("dose", retriever="cosine")
    with pytest.raises(ValueError, match="date_from is '2024'; give a date as YYYY-MM-DD"):
        index.answer("dose", date_from="2024")
    with pytest.raises(ValueError, match="k is 0"):
        index.search("dose", 0)
    with pytest.raises(ValueError, match="no strategy 'guess'"):
        index.answer("dose", strategy="guess")
    with pytest.raises(ValueError, match="no post-processing 'sort'"):
        index.answer("dose", postprocess="sort")
    with pytest.raises(StorageError, match="is not an index"):
        fdarx.Index.open(tmp_path)


def test_without_a_model_the_passages_are_quoted(index: fdarx.Index) -> None:
    answer = index.answer(QUESTION)
    assert answer.text == f"{NO_MODEL}\n\n“The maximum dose of Velora is 40 mg daily” [1]"
    [citation] = answer.citations
    assert citation.hit is answer.contexts[0] and (citation.n, citation.drug) == (1, "Velora")
    assert citation.quote == "The maximum dose of Velora is 40 mg daily." and citation.verdict == "supported"
    assert answer.text[slice(*citation.statement)] == "“The maximum dose of Velora is 40 mg daily” [1]"
    assert (answer.gate.statements, answer.refused, answer.model) == (0, False, "baseline")
    assert answer.marked == answer.text
    unanswered = index.answer("Which colour do the tablets of Velora have?")
    assert unanswered.contexts and unanswered.text.startswith(NO_MODEL)
    nothing = index.answer("zebra")
    assert (nothing.refused, nothing.contexts) == (True, [])
    assert index.answer(QUESTION, strategy="qa_rag", postprocess="score").citations[0].hit.set_id == "s1"


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("The label of Velora by Acme has the effective date 2024-05-01 and the version 3 [1].", "supported"),
        ("The label was last revised on May 1, 2024 [1].", "undecided"),
    ],
)
def test_a_version_rests_on_the_record_of_the_label(tmp_path: Path, reply: str, verdict: str) -> None:
    chunks = label("s1", "Velora", [("2 DOSE", "The maximum dose of Velora is 40 mg daily.")])
    chunks[0].label = LabelVersion(3, "2024-05-01", labeler="Acme", moieties=["velostat"])
    store = IndexStore(str(tmp_path))
    store.commit([store.write_segment(chunks)])
    index = fdarx.Index.open(tmp_path)
    asked = "When was the label of Velora last revised?"
    replies = iter([reply, "The label was last revised on May 2, 2023 [1]."])
    with (
        LoopbackServer(answer=lambda body: NAMED if asks_for_scope(body) else next(replies)) as server,
        fdarx.Model("tiny", base_url=server.openai_url) as model,
    ):
        answer = index.answer(asked, model=model, verifier="exact")
        assert index.answer(f"{asked} Say when.", model=model, verifier="exact").withheld
    [citation] = answer.citations
    assert (answer.text, citation.quote, citation.hit.effective_date) == (reply, "", "2024-05-01")
    assert citation.verdict == verdict


def test_a_citation_of_a_pdf_names_its_page(tmp_path: Path) -> None:
    pages = ["Stability of drug substances is tested.", "Long term testing should cover a minimum of 12 months."]
    (tmp_path / "stability.pdf").write_bytes(make_pdf(pages))
    place = str(tmp_path / "index")
    assert cli.main(["index", "--documents", str(tmp_path / "stability.pdf"), "--words-only", "--out", place]) == 0
    answer = fdarx.Index.open(place).answer("How many months should long term testing cover?")
    assert [(one.page, one.quote) for one in answer.citations] == [(2, pages[1])]


def test_answer_within_a_running_event_loop(index: fdarx.Index) -> None:
    async def notebook() -> str:
        return str(index.answer(QUESTION).text)

    assert asyncio.run(notebook()).endswith("[1]")


def test_answer_by_a_model(index: fdarx.Index) -> None:
    replies = iter(["<think>hm</think>At most 40 mg [1, 7].", ""])

    def reply(body: Any) -> str:
        if "<claim>" in body["messages"][-1]["content"]:
            return '{"verdicts": [{"passage": 1, "reason": "It says so.", "quote": "", "verdict": "supported"}]}'
        return NAMED if asks_for_scope(body) else next(replies)

    with LoopbackServer(answer=reply) as server, fdarx.Model("tiny", base_url=server.openai_url) as model:
        answer = index.answer(QUESTION, model=model)
        assert (answer.text, answer.model) == ("At most 40 mg [1].", "tiny")
        assert [one.hit.set_id for one in answer.citations] == ["s1"]
        with pytest.raises(Unparsable):
            index.answer("What is the maximum dose of Mirapan?", model=model)


def test_neither_ray_nor_torch_is_needed(place: Path) -> None:
    code = (
        "import sys, fdarx_core; heavy = {'ray', 'torch', 'sentence_transformers'}; "
        f"index = fdarx_core.Index.open({str(place)!r}); index.answer({QUESTION!r}); "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"]


def test_an_older_version(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    first = store.commit([store.write_segment([Chunk("a", "a", "A", "a.txt", "", "storage", 0)])])
    store.commit([store.write_segment(CHUNKS)])
    assert [hit.text for hit in fdarx.Index.open(tmp_path, version=first.version).search("storage dose")] == ["storage"]
