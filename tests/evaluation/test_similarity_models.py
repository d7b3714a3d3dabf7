"""BERTScore from a tiny model with random weights, made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.evaluation.similarity import AnswerSimilarity

bert_score = pytest.importorskip("bert_score", reason="bert-score is not installed: pip install 'fdarx[models]'")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.models

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] take one tablet daily with food the dose is 40 mg".split()  # noqa: SIM905
PREDICTIONS = ["take one tablet", "the dose is 40 mg", "with food daily"]
REFERENCES = ["take one tablet", "40 mg daily", "the dose " * 100]


def tiny_model(directory: Path, **tokenizer: Any) -> str:
    directory.mkdir()
    vocabulary = directory / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS))
    transformers.BertTokenizerFast(str(vocabulary), **tokenizer).save_pretrained(directory)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=66, initializer_range=1.0, **shape)
    transformers.BertModel(config).save_pretrained(directory)
    return str(directory)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny", model_max_length=64)


@pytest.mark.parametrize("layers", [1, 3])
def test_equal_to_bert_score(model: str, layers: int) -> None:
    theirs = bert_score.BERTScorer(model_type=model, num_layers=layers, device="cpu").score(PREDICTIONS, REFERENCES)[2]
    ours = AnswerSimilarity(model, layers=layers).values(PREDICTIONS, REFERENCES)
    assert ours == pytest.approx(theirs.tolist(), abs=1e-9)
    assert ours[0] == pytest.approx(1, abs=1e-6) and ours[1] < 0.99


def test_blank_texts_are_zero_and_keep_their_places(model: str) -> None:
    scorer = AnswerSimilarity(model, layers=2)
    assert scorer.values(["", "take one tablet", "x"], ["food", "take one tablet", " "]) == pytest.approx(
        [0, 1, 0], abs=1e-6
    )
    assert scorer.values([""], ["food"]) == [0]
    assert scorer.values([], []) == []
    with pytest.raises(ValueError):
        scorer.values(["food"], [])


def test_a_tokenizer_without_a_longest_text_is_cut_at_what_the_model_reads(tmp_path: Path, model: str) -> None:
    unbounded = AnswerSimilarity(tiny_model(tmp_path / "unbounded"), layers=2)
    bounded = AnswerSimilarity(model, layers=2)
    assert unbounded.values(PREDICTIONS, REFERENCES) == bounded.values(PREDICTIONS, REFERENCES)


def test_what_can_not_be_used_says_why(tmp_path: Path, model: str) -> None:
    with pytest.raises(ValueError, match="holds no model"):
        AnswerSimilarity(str(tmp_path))
    with pytest.raises(ValueError, match="give layers"):
        AnswerSimilarity(model)
    misleading = tmp_path / "t5"
    misleading.mkdir()
    (misleading / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ValueError, match="move the model"):
        AnswerSimilarity(str(misleading), layers=1)
    known = tiny_model(tmp_path / "distilroberta-base", model_max_length=64)
    for layers in (None, 4, 0):
        with pytest.raises(ValueError, match="has 3 layers"):
            AnswerSimilarity(known, layers=layers)
