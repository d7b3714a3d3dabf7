"""`fdarx evaluate --retrieval-scope corpus`: passages of all labels compete, and are cited by their places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from fdarx_core.records import Passage, Prediction, QuestionAnswer, Ranking
from fdarx_core.retrieval import passage_search_text
from tests.jobs.evaluating import by_type, evaluate, models_file, rows_of
from tests.llm.loopback_server import LoopbackServer, text_of

pytestmark = pytest.mark.slow

RETRIEVERS = ("bm25", "tfidf")
TOP_K = 4
MARKER = re.compile(r"^\|\|PASSAGE_(\d{4})\|\| ", re.MULTILINE)
Place = tuple[str, int]


def prompt_of(body: Mapping[str, Any]) -> str:
    return "\n".join(text_of(message) for message in body["messages"])


def cite_the_second(body: Mapping[str, Any]) -> str:
    """As a model that cites the second passage it is shown, and one that there is not."""
    second = MARKER.findall(prompt_of(body))[1]
    return f"Take 5 mg once daily.\nCITED_PASSAGES: [PASSAGE_{second}, PASSAGE_9999]"


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=cite_the_second) as running:
        yield running


@pytest.fixture(scope="module")
def corpus(example_build: Path, server: LoopbackServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    models = models_file(folder, server.openai_url, {"name": "small"})
    more = ("--retrieval-scope", "corpus", "--retrievers", ",".join(RETRIEVERS), "--top-k", TOP_K)
    done = evaluate(example_build, folder / "run", "--models", models, "--settings", "retrieved", *more)
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def passages(corpus: Path) -> dict[Place, Passage]:
    """In the order in which they are searched."""
    return {(row.set_id, row.doc_chunk_index): row for row in rows_of(corpus, "passages", Passage)}


@pytest.fixture(scope="module")
def rankings(corpus: Path) -> list[Ranking]:
    return [row for name in RETRIEVERS for row in rows_of(corpus, f"rankings/{name}", Ranking)]


@pytest.fixture(scope="module")
def predictions(corpus: Path) -> list[Prediction]:
    return rows_of(corpus, "predictions/small", Prediction)


def places(indices: list[int], set_ids: list[str], own: str) -> list[Place]:
    return list(zip(set_ids or [own] * len(indices), indices, strict=True))


def test_passages_of_other_labels_are_found(rankings: list[Ranking], passages: dict[Place, Passage]) -> None:
    for row in rankings:
        found = places(row.ranked, row.ranked_set_ids, "")
        assert len(row.ranked_set_ids) == len(row.ranked) == len(set(found)) == 10
        assert passages.keys() >= set(found)
    assert sum(set(row.ranked_set_ids) != {row.set_id} for row in rankings) > len(rankings) / 2


def test_bm25_is_rank_bm25_over_all_labels(
    corpus: Path, rankings: list[Ranking], passages: dict[Place, Passage]
) -> None:
    words = re.compile(r"[a-z0-9]+")
    okapi = BM25Okapi([words.findall(passage_search_text(one).lower()) for one in passages.values()])
    order = list(passages)
    asked = {row.id: row.question for row in rows_of(corpus, "questions", QuestionAnswer)}
    rows = [row for row in rankings if row.retriever == "bm25"]
    assert len(rows) == len(asked) > 50
    for row in rows:
        scores = okapi.get_scores(words.findall(asked[row.question_id].lower()))
        best = np.argsort(-scores, kind="stable")[:10]
        assert places(row.ranked, row.ranked_set_ids, "") == [order[place] for place in best]
        assert row.scores == scores[best].tolist()


def test_what_is_shown_is_what_ranks_first(rankings: list[Ranking], predictions: list[Prediction]) -> None:
    first = {(row.question_id, row.retriever): places(row.ranked, row.ranked_set_ids, "")[:TOP_K] for row in rankings}
    assert len(predictions) == len(first)
    for row in predictions:
        assert places(row.shown, row.shown_set_ids, row.set_id) == first[row.question_id, row.retriever]


def test_markers_say_places_where_labels_mix(
    corpus: Path, server: LoopbackServer, predictions: list[Prediction], passages: dict[Place, Passage]
) -> None:
    question_of = {row.id: row.question for row in rows_of(corpus, "questions", QuestionAnswer)}
    seen = {prompt_of(call.body) for call in server.calls}
    mixed = [row for row in predictions if row.shown_set_ids]
    assert len(mixed) > len(predictions) / 4
    for row in mixed[::7]:
        texts = [passages[place].text for place in zip(row.shown_set_ids, row.shown, strict=True)]
        prompts = [one for one in seen if question_of[row.question_id] in one and all(text in one for text in texts)]
        assert any(
            MARKER.findall(one) == [f"{place:04d}" for place in range(1, TOP_K + 1)]
            and [one.index(text) for text in texts] == sorted(one.index(text) for text in texts)
            for one in prompts
        )


def test_citations_lead_back_to_the_passages_they_mean(predictions: list[Prediction]) -> None:
    for row in predictions:
        assert places(row.cited, row.cited_set_ids, row.set_id) == [places(row.shown, row.shown_set_ids, row.set_id)[1]]
        assert row.cited_unknown == 1
    assert {row.set_id in row.cited_set_ids for row in predictions if row.cited_set_ids} == {False}


def test_all_labels_are_harder_to_search_than_one(corpus: Path, example_build: Path, tmp_path: Path) -> None:
    within = tmp_path / "label"
    done = evaluate(example_build, within, "--retrievers", *RETRIEVERS, "--settings", "closed_book")
    assert done.returncode == 0, done.stderr
    one, many = by_type(within), by_type(corpus)
    retrieval = [key for key in one if not key[0]]
    assert {key[2] for key in retrieval} == {*RETRIEVERS} and len(retrieval) > 20
    gains = [(many[key].value or 0) - (one[key].value or 0) for key in retrieval]
    assert sum(gain <= 0 for gain in gains) >= 0.8 * len(gains)  # of few questions, one figure or the other is higher
    assert sum(gains) < 0
