"""What `fdarx serve` refuses before it starts anything, each in one line with what to do."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from jobs.serve import main
from serving.config import ServiceConfig
from serving.http.keys import Keys
from tests.serving.editions import publish


@pytest.fixture
def index(tmp_path: Path) -> Path:
    publish(tmp_path / "leaflets", 1)
    return tmp_path / "leaflets"


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The last line of what the user is told."""
    with pytest.raises(SystemExit) as ended:
        main(line)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_no_index(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "--index is missing" in refused(capsys)
    assert "fdarx index" in refused(capsys, "--index", str(tmp_path))


def test_damaged_index(capsys: pytest.CaptureFixture[str], index: Path) -> None:
    [chunks] = index.glob("segments/*/chunks.parquet")
    chunks.write_bytes(chunks.read_bytes()[:-1])
    assert "build it again" in refused(capsys, "--index", str(index))


def test_two_of_one_name(capsys: pytest.CaptureFixture[str], index: Path) -> None:
    assert "two are named leaflets" in refused(capsys, "--index", str(index), f"leaflets={index}")


def test_port_in_use(capsys: pytest.CaptureFixture[str], index: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"--port {port}" in refused(capsys, "--index", str(index), "--port", port)


def test_unknown_model(capsys: pytest.CaptureFixture[str], index: Path) -> None:
    assert "--answerer gpt" in refused(capsys, "--index", str(index), "--answerer", "gpt")
    assert "--scorer gpt" in refused(capsys, "--index", str(index), "--scorer", "gpt")


def test_what_the_index_does_not_offer(capsys: pytest.CaptureFixture[str], index: Path) -> None:
    assert "bm25" in refused(capsys, "--index", str(index), "--retriever", "cosine")
    assert "--reranker-model" in refused(capsys, "--index", str(index), "--postprocess", "rerank")
    assert "there is: question" in refused(capsys, "--index", str(index), "--strategy", "best")
    assert "there are rerank" in refused(capsys, "--index", str(index), "--postprocess", "best")


def test_cluster(capsys: pytest.CaptureFixture[str], index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with socket.create_server(("127.0.0.1", 0)) as one:
        free = one.getsockname()[1]
    assert "cluster/qa_rag.yaml" in refused(capsys, "--index", str(index), "--port", str(free))


def test_new_key(capsys: pytest.CaptureFixture[str], index: Path, tmp_path: Path) -> None:
    """It is printed once, alone on standard output; the file holds its hash."""
    file = tmp_path / "keys"
    assert main(["--keys-file", str(file), "--new-key", "reviewer"]) == 0
    key = capsys.readouterr().out.strip()
    assert Keys.load(file).holder(key.encode()) == "reviewer"
    assert key not in file.read_text()
    assert "reviewer" in refused(capsys, "--keys-file", str(file), "--new-key", "reviewer")
    assert "--keys-file" in refused(capsys, "--new-key", "other")
    file.write_text("no key")
    assert f"{file}:1" in refused(capsys, "--index", str(index), "--keys-file", str(file))


def test_roles_default_to_the_answerer(index: Path) -> None:
    models = [{"name": "big", "model": "m", "base_url": "http://localhost/v1"}]
    config = ServiceConfig.model_validate({"corpora": {"a": str(index)}, "models": models, "answerer": "big"})
    assert set(config.roles.values()) == {"big"}
