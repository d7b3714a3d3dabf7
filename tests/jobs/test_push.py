"""`fdarx push`, and `fdarx evaluate --benchmark hf://…`, with huggingface_hub and datasets on a hub on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.benchmark_reader import read_benchmark
from fdarx_core.storage.hub import upload_benchmark
from tests.conftest import REPOSITORY
from tests.jobs.in_process import run_job
from tests.storage.hub_server import READ, WRITE, Hub, running

constants = pytest.importorskip("huggingface_hub.constants")

NAME = "anna/labels"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub, and a cache and a token of its own; files are uploaded by the LFS protocol, which the hub speaks."""
    with running() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        files = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", WRITE)
        yield server


def files_of(build: Path) -> dict[str, bytes]:
    folder = build / "benchmark"
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_push_makes_one_commit_of_all_files(split_build: Path, hub: Hub) -> None:
    done = run_job("push", split_build, NAME, "--message", "First benchmark")
    assert done.returncode == 0, done.stderr
    repo = hub.repos[NAME]
    files = repo.files()
    assert files.pop(".gitattributes") == b""
    assert files == files_of(split_build)
    assert repo.messages() == ["First benchmark"] and not repo.private
    assert f"{hub.address}/datasets/{NAME}/commit/{repo.branches['main']}" in done.stdout
    assert f"hf://{NAME}" in done.stdout


def test_a_benchmark_on_the_hub_replaces_the_files_of_an_earlier_one_only(
    split_build: Path, hub: Hub, tmp_path: Path
) -> None:
    old = {"passages/dev.parquet": b"2", "qa_dev.jsonl": b"3", "notes.md": b"4"}
    repo = hub.create(NAME, {".gitattributes": b"", **old})
    without_dev = Path(shutil.copytree(split_build, tmp_path / "without-dev"))
    for file in [*(without_dev / "benchmark").rglob("dev.parquet"), *(without_dev / "benchmark").glob("*_dev.jsonl")]:
        file.unlink()
    assert run_job("push", without_dev, NAME).returncode == 0
    assert repo.files() == {**files_of(without_dev), ".gitattributes": b"", "notes.md": b"4"}
    assert len(repo.messages()) == 1


def test_push_to_a_branch_of_a_private_dataset(split_build: Path, hub: Hub) -> None:
    done = run_job("push", split_build, NAME, "--private", "--revision", "v2")
    assert done.returncode == 0, done.stderr
    repo = hub.repos[NAME]
    assert repo.private and set(repo.files()) == {".gitattributes"} and "qa.jsonl" in repo.files("v2")
    assert f"hf://{NAME}@v2" in done.stdout
    with_token = read_benchmark(f"hf://{NAME}@v2")
    assert with_token.about["commit"] == repo.branches["v2"]


def test_an_interrupted_push_uploads_what_is_missing(split_build: Path, hub: Hub) -> None:
    hub.broken = {"/commit/"}
    first = run_job("push", split_build, NAME)
    assert first.returncode == 2 and "answered 500 (out of order)" in first.stderr
    uploaded = [path for method, path in hub.requests if method == "PUT"]
    hub.broken, hub.requests = set(), []
    assert run_job("push", split_build, NAME).returncode == 0
    assert uploaded and not [path for method, path in hub.requests if method == "PUT"]
    assert len(hub.repos[NAME].messages()) == 1


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("", "HF_TOKEN holds no token for the hub; set it"),
        ("hf_with space", "HF_TOKEN holds no token for the hub: a token has"),
        (READ, "the hub refuses it; the token in HF_TOKEN needs the permission"),
        ("hf_unknown", "the hub does not accept the token in HF_TOKEN"),
    ],
)
def test_a_token_that_does_not_do_is_named_by_its_variable(
    split_build: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, token: str, says: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    done = run_job("push", split_build, NAME)
    assert done.returncode == 2 and says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not token or token not in done.stderr + done.stdout
    assert not hub.repos


def test_what_else_keeps_a_benchmark_from_the_hub(
    split_build: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.create(NAME, {".gitattributes": b""})
    told = {
        "exists and is public; make it private": run_job("push", split_build, NAME, "--private"),
        "write it as USER/NAME": run_job("push", split_build, "labels"),
        "correct the name": run_job("push", split_build, "anna/la--bels"),
        "is not a run": run_job("push", tmp_path, NAME),
    }
    monkeypatch.setattr(constants, "ENDPOINT", NOWHERE)
    told[f"{NOWHERE} cannot be reached"] = run_job("push", split_build, NAME)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    told["pip install 'fdarx[hub]'"] = run_job("push", split_build, NAME)
    for says, done in told.items():
        assert done.returncode == 2 and says in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert set(hub.repos[NAME].files()) == {".gitattributes"}


def test_a_benchmark_on_s3_is_uploaded(split_build: Path, hub: Hub, bucket: Location) -> None:
    for name, content in files_of(split_build).items():
        (bucket / "run" / "benchmark" / name).write_bytes(content)
    upload_benchmark(bucket / "run" / "benchmark", NAME)
    assert hub.repos[NAME].files() == {**files_of(split_build), ".gitattributes": b""}


def environment(hub: Hub, tmp_path: Path, **more: str) -> dict[str, str]:
    own = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1", **more}
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "0", **own}


def test_what_was_pushed_loads_by_the_name_of_the_dataset(split_build: Path, hub: Hub, tmp_path: Path) -> None:
    """In processes of their own, which know the hub from the environment only."""
    pytest.importorskip("datasets")
    env = environment(hub, tmp_path, HF_TOKEN=WRITE)
    pushed = subprocess.run(
        [sys.executable, "-m", "jobs.cli", "push", split_build, NAME],
        cwd=REPOSITORY, env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    script = f"""
import json
from datasets import get_dataset_config_names, load_dataset
print(json.dumps({{config: {{split: rows.num_rows for split, rows in load_dataset("{NAME}", config).items()}}
                  for config in get_dataset_config_names("{NAME}")}}))
"""
    loaded = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    info = json.loads((split_build / "run.json").read_text())
    rows = json.loads(loaded.stdout.splitlines()[-1])
    for split in ("test", "dev"):
        asked = info["splits"]["questions"][split]
        assert {name: rows[name][split] for name in asked} == asked
    assert rows["labels"] == {"test": 8, "dev": 1} and set(rows["passages"]) == {"test", "dev"}
    written = b"".join(file.read_bytes() for file in (tmp_path / "hf").rglob("*") if file.is_file())
    assert WRITE not in pushed.stdout + pushed.stderr
    assert WRITE.encode() not in written + b"".join(files_of(split_build).values())


def test_an_evaluation_on_a_benchmark_of_the_hub(split_build: Path, hub: Hub, tmp_path: Path) -> None:
    assert run_job("push", split_build, NAME).returncode == 0
    hub.requests.clear()
    out = tmp_path / "evaluation"
    options = ("--settings", "closed_book", "--resamples", 100, "--cpus", 2, "--split", "dev")
    done = run_job("evaluate", "--benchmark", f"hf://{NAME}", "--out", out, *options)
    assert done.returncode == 0, done.stderr
    info = json.loads((out / "run.json").read_text())
    commit = hub.repos[NAME].branches["main"]
    about: dict[str, Any] = {"name": "labels", "kind": "published", "address": f"hf://{NAME}", "commit": commit}
    assert about.items() <= info["benchmark"].items()
    asked = json.loads((split_build / "run.json").read_text())["splits"]["questions"]["dev"]
    assert {kind: number for kind, number in info["questions"].items() if number} == asked
    assert not [path for _, path in hub.requests if path.endswith(".parquet")]


def test_the_cache_is_read_without_a_network(toy: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.create("bench/published", {"qa/qa_toy.jsonl": toy.read_bytes(), "README.md": b"", "data/other.bin": b"0"})
    first = read_benchmark("hf://bench/published")
    commit = hub.repos["bench/published"].branches["main"]
    assert first.about["questions"] == {"factual": 37, "multihop": 19, "refusal": 3}
    assert not [path for _, path in hub.requests if path.endswith("other.bin")]
    monkeypatch.setattr(constants, "ENDPOINT", NOWHERE)
    for address in ("hf://bench/published", f"hf://datasets/bench/published@{commit}"):
        again = read_benchmark(address)
        assert again.about["digest"] == first.about["digest"] == read_benchmark(str(toy)).about["digest"]
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert read_benchmark("hf://bench/published").about["commit"] == commit
    with pytest.raises(StorageError, match=r"cannot read hf://bench/never: .* cannot be reached; check the network"):
        read_benchmark("hf://bench/never")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("hf://published", "write it as hf://USER/NAME[@REVISION]"),
        ("hf://bench/none", "there is no such dataset, or the token"),
        ("hf://bench/empty@v9", "there is no such revision"),
        ("hf://bench/empty", "holds no benchmark"),
    ],
)
def test_what_cannot_be_read_from_the_hub_is_said(hub: Hub, tmp_path: Path, address: str, says: str) -> None:
    hub.create("bench/empty", {"README.md": b"none", "qa-notes.txt": b"", "labels.jsonl": b"{}"})
    done = run_job("evaluate", "--benchmark", address, "--out", tmp_path / "run")
    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert not (tmp_path / "run").exists()
