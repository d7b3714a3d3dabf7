"""`fdarx evaluate --deploy` with the real engine: two tiny models, and one whose weights are cut short."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from fdarx_core.records import Prediction
from tests.conftest import REPOSITORY
from tests.engine.conftest import Tiny
from tests.engine.serve_models import described
from tests.jobs.evaluating import cells, command, rows_of

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

END_S = 60


@pytest.fixture
def broken(tiny: Tiny, tmp_path: Path) -> Path:
    """The model's directory, its weights cut short: all is there, and no engine can start on it."""
    folder = shutil.copytree(tiny.model, tmp_path / "broken_model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    return folder


def evaluate(tiny: Tiny, benchmark: Path, folder: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    options = ("--deploy", *files, "--models", "baseline", "--settings", "oracle", "--sample", 2)
    _, *line = command(benchmark, folder / "run", *options)
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "ENGINE_TEST_FOLDER": str(folder)}
    return subprocess.run(
        [str(tiny.python), *line], cwd=REPOSITORY, capture_output=True, text=True, timeout=800, env=environment
    )


def left(folder: Path) -> list[str]:
    """What still runs of what was started with that folder in its environment."""
    mark = f"ENGINE_TEST_FOLDER={folder}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0"):
                found.append((environ.parent / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.nightly
def test_two_models_answer_the_third_is_explained_and_nothing_stays(
    tiny: Tiny, broken: Path, example_build: Path, tmp_path: Path
) -> None:
    two_at_a_time = {"cpus": 0.3, "ask": {"max_tokens": 32, "sampling": {"temperature": 1.0}}}
    files = [described(tmp_path / f"{name}.yaml", tiny.model, **two_at_a_time) for name in ("small", "other")]
    third = described(tmp_path / "third.yaml", broken, **two_at_a_time)
    done = evaluate(tiny, example_build, tmp_path, *files, third)
    assert done.returncode == 3, done.stdout + done.stderr
    found = {model: cell for (model, _, _), cell in cells(tmp_path / "run").items()}
    assert {model: cell.status for model, cell in found.items()} == {
        "baseline": "done",
        "small": "done",
        "other": "done",
        "third": "incomplete",
    }
    assert found["third"].reason.startswith("third can't be served: ") and "Safetensor" in found["third"].reason
    for name in ("small", "other"):
        said = rows_of(tmp_path / "run", f"predictions/{name}", Prediction)
        assert len(said) == found[name].due > 0
        assert sum(row.completion_tokens for row in said) > 0
    asked = json.loads((tmp_path / "run" / "run.json").read_text())["asked"]
    assert {row["endpoint"] for row in asked} == {"baseline", "small", "other"}
    deadline = time.monotonic() + END_S
    while (running := left(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert running == []


def test_a_directory_without_tokenizer_is_refused_before_anything_starts(
    tiny: Tiny, example_build: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny.model, tmp_path / "bare")
    (folder / "tokenizer.json").unlink()
    done = evaluate(tiny, example_build, tmp_path, described(tmp_path / "bare.yaml", folder))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "has no tokenizer" in done.stderr
    assert not (tmp_path / "run").exists()
