"""What can be loaded as an NLI model, and what says why not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.verify.cross_encoder import BatchRunner, CrossEncoder
from fdarx_core.verify.nli_model import OutputClasses, check_nli
from tests.conftest import REPOSITORY
from tests.retrieval import tiny_rerankers
from tests.verify import tiny_nli

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="not installed: pip install 'fdarx[models]'")

pytestmark = pytest.mark.models


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(tiny_nli.cross_encoder("bert", tmp_path / "nli"))


def change(model: Path, **values: Any) -> str:
    file = model / "config.json"
    kept = {**json.loads(file.read_text()), **values}
    file.write_text(json.dumps({name: value for name, value in kept.items() if value is not None}))
    return str(model)


def test_a_model_is_checked_without_its_weights(model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"")
    assert check_nli(str(model)) == OutputClasses(0, 1, 2)


def test_what_is_missing_is_named(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"nowhere/at/all is not a directory"):
        check_nli("nowhere/at/all")
    with pytest.raises(ModelMissing, match=r"no config\.json"):
        check_nli(str(tmp_path))
    (model / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    with pytest.raises(ModelMissing, match="no tokenizer"):
        check_nli(str(model))
    (model / "model.safetensors").unlink()
    with pytest.raises(ModelMissing, match="no weights"):
        check_nli(str(model))


def test_another_kind_of_model_is_refused(model: Path) -> None:
    with pytest.raises(ModelMissing, match=r"is a BertModel, no NLI model"):
        check_nli(change(model, architectures=["BertModel"]))
    with pytest.raises(ModelMissing, match=r"names its outputs LABEL_0, LABEL_1,.*--nli-labels"):
        check_nli(change(model, architectures=None, id2label=None))
    (model / "config.json").write_text("{")
    with pytest.raises(ModelMissing, match=r"config\.json: not JSON"):
        check_nli(str(model))


def test_a_model_without_a_trained_head_is_refused(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    transformers.BertModel.from_pretrained(model).save_pretrained(model)
    (model / "config.json").write_text(json.dumps({**config, "architectures": None}))
    with pytest.raises(ModelMissing, match=r"lacks 2 weights, as classifier\.bias"):
        CrossEncoder(str(model), device="cpu")


def test_a_name_on_the_hub_that_is_not_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelMissing, match="acme/nli is not a directory, and can't be loaded from the hub"):
        check_nli("acme/nli")


def test_a_name_on_the_hub(model: Path, tmp_path: Path) -> None:
    """From the hub's own cache, as the machine has it after a first download."""
    commit, kept = "0" * 40, tmp_path / "hub" / "models--acme--tiny-nli"
    shutil.copytree(model, kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(commit)
    code = (
        "from fdarx_core.verify.cross_encoder import CrossEncoder; "
        "from fdarx_core.verify import TextPair; "
        "entailment = CrossEncoder('acme/tiny-nli', device='cpu'); "
        "print(entailment.name, entailment.judge([TextPair('Take one.', 'Take one.')])[0].end)"
    )
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "tiny-nli 9\n", done.stderr


@pytest.mark.parametrize(("stated", "tokenizers", "longest"), [(66, 10**30, 64), (66, 60, 60), (1026, 512, 512)])
def test_the_longest_input_is_what_positions_and_tokenizer_allow(
    tmp_path: Path, stated: int, tokenizers: int, longest: int
) -> None:
    """RoBERTa's kind has two positions fewer than its configuration says."""
    tiny_nli.cross_encoder("xlm-roberta", tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path, max_position_embeddings=stated)
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(tmp_path, model_max_length=tokenizers).save_pretrained(tmp_path)
    from fdarx_core.verify.nli_model import load

    assert load(str(tmp_path), "cpu")[2] == longest


def test_what_half_precision_can_not_hold_is_run_in_single(model: Path) -> None:
    network = transformers.AutoModelForSequenceClassification.from_pretrained(model)
    with torch.no_grad():
        for table in (network.bert.embeddings.word_embeddings, network.bert.embeddings.token_type_embeddings):
            table.weight.copy_(table.weight.sign() * 4e4)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    [half] = BatchRunner(network.half(), tokenizer, 16).probabilities([tokenizer(*tiny_rerankers.passages(2, 1))])
    assert isinstance(half, list) and sum(half) == pytest.approx(1)
