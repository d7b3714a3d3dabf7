"""FlagEmbedding's reranker and sentence-transformers' CrossEncoder on the same weights, texts that are cut included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fdarx_core.retrieval.rerank import BgeReranker
from tests.retrieval import tiny_rerankers

torch = pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")
pytest.importorskip("FlagEmbedding")

pytestmark = pytest.mark.models

QUESTIONS = [
    "How soon is a serious and unexpected adverse event reported?",
    "At which temperature are oral solutions kept?",
]
EXACT = 1e-5
"""Of scores that are single precision and whose batches are padded differently."""


@pytest.fixture(scope="module", params=tiny_rerankers.KINDS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_rerankers.cross_encoder(request.param, tmp_path_factory.mktemp("reranker") / request.param)


@pytest.fixture(scope="module")
def ours(directory: str) -> BgeReranker:
    return BgeReranker(directory)


@pytest.fixture(scope="module")
def peer(directory: str) -> Any:
    return sentence_transformers.CrossEncoder(directory, device="cpu")


def logits(peer: Any, pairs: list[tuple[str, str]], **options: Any) -> np.ndarray:
    found: np.ndarray = peer.predict(pairs, activation_fn=torch.nn.Identity(), **options)
    return found


def tokens(peer: Any, *texts: str) -> int:
    return len(peer.tokenizer(*texts)["input_ids"])


def test_scores_and_order_are_the_cross_encoders(ours: BgeReranker, peer: Any) -> None:
    """The CrossEncoder says the logit's sigmoid unless told otherwise; the order is the same."""
    texts = tiny_rerankers.passages(60, 60)
    cut = sum(tokens(peer, QUESTIONS[0], text) > tiny_rerankers.LONGEST for text in texts)
    assert 20 < cut < 55
    for question in QUESTIONS:
        pairs = [(question, text) for text in texts]
        scores, expected = np.array(ours.score(pairs)), logits(peer, pairs)
        np.testing.assert_allclose(scores, expected, atol=EXACT)
        np.testing.assert_allclose(1 / (1 + np.exp(-scores)), peer.predict(pairs), atol=EXACT)
        assert np.std(expected) > 1000 * EXACT
        assert in_order(scores, expected)


def in_order(scores: np.ndarray, expected: np.ndarray) -> bool:
    """Whether going by scores, expected ones fall too; those closer than the arithmetic may stand either way."""
    fallen = np.diff(expected[np.argsort(-scores)])
    return bool((fallen <= 2 * EXACT).all())


def test_texts_are_cut_at_512_tokens_question_and_marks_included(ours: BgeReranker, peer: Any) -> None:
    """Words that follow the last token read change nothing; in place of the last ones read, they do."""
    question, end = QUESTIONS[0], " " + tiny_rerankers.sentences()[0]
    fitting = " a" * (tiny_rerankers.LONGEST - tokens(peer, question, "a") + 1)
    assert tokens(peer, question, fitting) == tiny_rerankers.LONGEST
    full, beyond, inside = ours.score([(question, text) for text in (fitting, fitting + end, fitting[:-8] + end)])
    assert beyond == pytest.approx(full, abs=EXACT)
    assert abs(inside - full) > 10 * EXACT


def test_a_long_question_leaves_a_quarter_to_the_passage(ours: BgeReranker, peer: Any) -> None:
    """Here the libraries differ: the CrossEncoder cuts whichever of the two is longer."""
    question, [passage] = " ".join(QUESTIONS[:1] * 60), tiny_rerankers.passages(1, 60, seed=2)
    read = peer.tokenizer(question, add_special_tokens=False, truncation=True, max_length=384)["input_ids"]
    assert len(read) == 384
    cut = peer.tokenizer.decode(read)
    only_passage = {"text": {"truncation": "only_second", "max_length": 512, "padding": True}}
    [expected] = logits(peer, [(cut, passage)], processing_kwargs=only_passage)
    assert ours.score([(question, passage)]) == pytest.approx([expected], abs=EXACT)
    assert abs(logits(peer, [(question, passage)])[0] - expected) > 10 * EXACT
