"""Classifiers on onnxruntime: the values of transformers, one export for each model, and torch where that fails."""

from __future__ import annotations

import logging
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.verify import Inference, TextPair, nli_model
from fdarx_core.verify.cross_encoder import CrossEncoder
from fdarx_core.verify.nli_model import OnnxClassifier, on_onnxruntime
from tests.retrieval import tiny_rerankers
from tests.verify import tiny_nli

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="not installed: pip install 'fdarx[models]'")
pytest.importorskip("onnxruntime", reason="not installed: pip install 'fdarx[models]'")

pytestmark = pytest.mark.models

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fdarx" / "onnx"


def loaded(directory: str) -> Any:
    return transformers.AutoModelForSequenceClassification.from_pretrained(directory).eval()


@pytest.mark.parametrize("kind", tiny_nli.KINDS)
def test_equal_to_transformers_own(kind: str, tmp_path: Path, cache: Path) -> None:
    directory = tiny_nli.cross_encoder(kind, tmp_path / kind)
    texts = list(zip(tiny_rerankers.passages(20, 4), tiny_rerankers.passages(20, 1, seed=1), strict=True))
    tokenizer, network = transformers.AutoTokenizer.from_pretrained(directory), loaded(directory)
    fitting = [one for one in texts if len(tokenizer(*one)["input_ids"]) <= tiny_nli.LONGEST]
    found = CrossEncoder(directory, device="cpu").infer([TextPair(*one) for one in fitting])
    assert len(list(cache.iterdir())) == 1 and len(fitting) > 10
    for one, judged in zip(fitting, found, strict=True):
        with torch.inference_mode():
            expected = network(**tokenizer(*one, return_tensors="pt")).logits.softmax(-1)[0].tolist()
        assert isinstance(judged, Inference)
        assert [judged.entailment, judged.neutral, judged.contradiction] == pytest.approx(expected, abs=1e-6)


def test_a_model_that_ignores_token_types(tmp_path: Path) -> None:
    network = loaded(tiny_nli.cross_encoder("deberta-v2", tmp_path / "model"))
    assert isinstance(on_onnxruntime(network, INPUTS), OnnxClassifier)


def test_exported_once_for_each_model(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = loaded(tiny_nli.cross_encoder("bert", tmp_path / "model"))
    on_onnxruntime(network, INPUTS)
    with monkeypatch.context() as patch:
        patch.delattr(torch.onnx, "export")
        assert isinstance(on_onnxruntime(network, INPUTS), OnnxClassifier)
    with torch.no_grad():
        network.classifier.bias += 1
    assert isinstance(on_onnxruntime(network, INPUTS), OnnxClassifier)
    assert len(list(cache.iterdir())) == 2


def test_torch_without_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(nli_model, "find_spec", found)
    network = loaded(tiny_nli.cross_encoder("bert", tmp_path / "model"))
    assert on_onnxruntime(network, INPUTS) is network


def test_torch_where_the_export_reads_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network = loaded(tiny_nli.cross_encoder("bert", tmp_path / "model"))
    pooler = network.bert.pooler
    # a head that reads all tokens, where the export computes the first alone
    monkeypatch.setattr(pooler, "forward", lambda hidden: pooler.dense(hidden.mean(1)))
    with caplog.at_level(logging.WARNING):
        assert on_onnxruntime(network, INPUTS) is network
    assert "runs on torch, its export to ONNX failed: the logits differ" in caplog.text
    assert network.config._attn_implementation == "sdpa" and not list(cache.iterdir())
