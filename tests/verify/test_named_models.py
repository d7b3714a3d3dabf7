"""Models by name and the engine that needs no download."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.verify import open_engine
from fdarx_core.verify.nli_model import NAMED_MODELS, default_engine, resolve
from tests.conftest import REPOSITORY
from tests.verify import tiny_nli


def test_names_and_pins_are_resolved(tmp_path: Path) -> None:
    general = NAMED_MODELS["general"]
    assert resolve("") == resolve("general") == (general.hub_name, general.revision, None)
    assert resolve("acme/nli@v2") == ("acme/nli", "v2", None)
    assert resolve("acme/nli") == ("acme/nli", None, None)
    pinned = tmp_path / "nli@v2"
    pinned.mkdir()
    assert resolve(str(pinned)) == (str(pinned), None, None)
    assert all(len(one.revision) == 40 for one in NAMED_MODELS.values())


def test_a_wrong_directory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FDARX_VERIFIER", "nowhere/at/all")
    with pytest.raises(ModelMissing, match="FDARX_VERIFIER=nowhere/at/all is not a directory"):
        default_engine()


@pytest.mark.models
def test_auto_takes_the_directory_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("FDARX_VERIFIER", tiny_nli.cross_encoder("bert", tmp_path / "own-nli"))
    assert open_engine("auto").name == "own-nli"


@pytest.mark.models
def test_auto_takes_a_cached_model_and_else_exact(tmp_path: Path) -> None:
    """In processes of their own: the hub's library reads the place of its cache once."""
    pytest.importorskip("torch")
    named = NAMED_MODELS["biomedical"]
    assert _auto(tmp_path) == "exact"
    kept = tmp_path / f"models--{named.hub_name.replace('/', '--')}"
    model = tiny_nli.cross_encoder("bert", tmp_path / "nli", ["LABEL_0", "LABEL_1", "LABEL_2"])
    shutil.copytree(model, kept / "snapshots" / named.revision)
    assert _auto(tmp_path) == "PubMedBERT-MNLI-MedNLI"


def _auto(cache: Path) -> str:
    code = "from fdarx_core.verify import open_engine; print(open_engine('auto').name)"
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1", "FDARX_VERIFIER": ""}
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
