from __future__ import annotations

from pathlib import Path

import pytest

from fdarx_core.retrieval.encoders import EncoderInfo, fingerprint
from fdarx_core.retrieval.index.segments import same_encoder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"mean": true}')
    (tmp_path / "config.json").write_text('{"layers": 6}')
    (tmp_path / "model.safetensors").write_bytes(bytes(3_000_000))
    (tmp_path / "README.md").write_text("a card")
    return tmp_path


@pytest.mark.parametrize("name", ["config.json", "1_Pooling/config.json", "model.safetensors"])
def test_whatever_makes_vectors_counts(model: Path, name: str) -> None:
    before = fingerprint(str(model))
    data = (model / name).read_bytes()
    (model / name).write_bytes(data[:-1] + b"x")
    assert fingerprint(str(model)) != before
    (model / name).write_bytes(data)
    assert fingerprint(str(model)) == before
    (model / name).unlink()
    assert fingerprint(str(model)) != before


def test_place_card_and_download_marks_do_not_count(model: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = fingerprint(str(model))
    (model / "README.md").write_text("another card")
    (model / ".cache").mkdir()
    (model / ".cache" / "download.json").write_text("{}")
    moved = model.rename(tmp_path_factory.mktemp("elsewhere") / "renamed")
    assert fingerprint(str(moved)) == before


def test_which_vectors_can_be_compared() -> None:
    made = EncoderInfo("minilm", "aa", 384)
    assert same_encoder(None, None) and not same_encoder(made, None)
    assert same_encoder(made, EncoderInfo("a copy", "aa", 384, "query: "))
    assert not same_encoder(made, EncoderInfo("minilm", "ab", 384))
    assert not same_encoder(made, EncoderInfo("minilm", "aa", 384, normalised=False))
