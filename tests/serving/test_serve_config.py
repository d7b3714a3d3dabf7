"""Options of `fdarx serve` and Serve configurations: what is refused, and what Ray is asked for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from fdarx_core.specs.serve import ServiceConfig
from jobs import cli
from serving.config import SERVE_VARIABLES
from serving.http.access import add_key, read_keys
from serving.http.logs import open_request_log
from serving.qa_rag import build
from tests.serving.editions import publish
from tests.serving.service_process import REPOSITORY, free_port


@pytest.fixture
def index(tmp_path: Path) -> Path:
    publish(tmp_path / "leaflets", 1)
    return tmp_path / "leaflets"


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The last line of what the user is told."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", *line])
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_no_index(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "--index is missing" in refused(capsys)
    assert "fdarx index" in refused(capsys, "--index", str(tmp_path))


def test_interrupted_before_it_is_ready(
    capsys: pytest.CaptureFixture[str], index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.serve.SERVE_VARIABLES", {})
    monkeypatch.setattr("jobs.serve._start", lambda *_: signal.raise_signal(signal.SIGINT))
    assert cli.main(["serve", "--index", str(index), "--port", str(free_port())]) == 130
    told = capsys.readouterr().err
    assert told.endswith("\ninterrupted before the service was ready\n") and "ending" not in told


def test_damaged_index(capsys: pytest.CaptureFixture[str], index: Path) -> None:
    [chunks] = index.glob("segments/*/chunks.parquet")
    chunks.write_bytes(chunks.read_bytes()[:-1])
    assert "build it again" in refused(capsys, "--index", str(index))


def test_two_of_one_name(capsys: pytest.CaptureFixture[str], index: Path) -> None:
    assert "two are named leaflets" in refused(capsys, "--index", str(index), f"leaflets={index}")


def test_port_in_use(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is told before an index is read, and by `make serve` before one is built."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        told = refused(capsys, "--index", str(tmp_path / "none"), "--port", str(port))
        assert f"--port {port}: Address already in use; give another" in told
        assert f"--port {port + 1} (make serve PORT={port + 1})" in told
        make = ["make", "serve", f"PORT={port}", "--old-file=.venv/core", f"BIN={Path(sys.executable).parent}"]
        ended = subprocess.run(make, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ended.returncode and told in ended.stderr and "fdarx build" not in ended.stdout


@pytest.mark.parametrize("port", ["abc", "99999", ""])
def test_make_serve_refuses_what_is_no_port(port: str) -> None:
    make = ["make", "serve", f"PORT={port}", "--old-file=.venv/core", f"BIN={Path(sys.executable).parent}"]
    ended = subprocess.run(make, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ended.returncode and ended.stderr.startswith("error: --port: ") and f"(given: '{port}')" in ended.stderr
    assert "Traceback" not in ended.stderr and "fdarx build" not in ended.stdout


def test_make_serve_takes_a_port() -> None:
    make = ["make", "--no-print-directory", "--dry-run", "serve", "PORT=8010", "--old-file=.venv/core"]
    said = subprocess.run(make, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert said.strip().endswith("--port 8010")


def test_hosts_and_sizes_that_are_none(capsys: pytest.CaptureFixture[str], index: Path) -> None:
    wrong = refused(capsys, "--index", str(index), "--allowed-hosts", "https://answers.example.org")
    assert "allowed" in wrong and "without scheme and port" in wrong
    assert "--feedback-bytes" in refused(capsys, "--index", str(index), "--feedback-bytes", "0")


def test_without_a_token_a_service_is_not_opened_to_others(
    capsys: pytest.CaptureFixture[str], index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    line = ("--index", str(index), "--host", "0.0.0.0", "--port", str(free_port()))
    assert "unset RAY_AUTH_MODE" in refused(capsys, *line)


def test_request_log_is_private(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    for line in ("first\n", "second\n"):
        with open_request_log(file) as log:
            log.write(line)
    assert file.read_text() == "first\nsecond\n" and file.stat().st_mode & 0o777 == 0o600


def test_unknown_model(capsys: pytest.CaptureFixture[str], index: Path) -> None:
    assert "--answerer gpt" in refused(capsys, "--index", str(index), "--answerer", "gpt")
    assert "--scorer gpt" in refused(capsys, "--index", str(index), "--scorer", "gpt")


def test_what_the_index_does_not_offer(capsys: pytest.CaptureFixture[str], index: Path) -> None:
    assert "bm25" in refused(capsys, "--index", str(index), "--retriever", "cosine")
    assert "--reranker-model" in refused(capsys, "--index", str(index), "--postprocess", "rerank")
    assert "there is: auto, question" in refused(capsys, "--index", str(index), "--strategy", "best")
    assert "there are auto, rerank" in refused(capsys, "--index", str(index), "--postprocess", "best")


def test_cluster(capsys: pytest.CaptureFixture[str], index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with socket.create_server(("127.0.0.1", 0)) as one:
        free = one.getsockname()[1]
    assert "cluster/qa_rag.yaml" in refused(capsys, "--index", str(index), "--port", str(free))


def test_new_key(capsys: pytest.CaptureFixture[str], index: Path, tmp_path: Path) -> None:
    """It is printed once, alone on standard output; the file holds its hash."""
    file = tmp_path / "keys"
    assert cli.main(["serve", "--keys-file", str(file), "--new-key", "reviewer"]) == 0
    key = capsys.readouterr().out.strip()
    assert read_keys(file).name_of(key.encode()) == "reviewer"
    assert key not in file.read_text()
    assert "reviewer" in refused(capsys, "--keys-file", str(file), "--new-key", "reviewer")
    assert "--keys-file" in refused(capsys, "--new-key", "other")
    assert cli.main(["serve", "--keys-file", str(file), "--new-key", "editor", "--upload"]) == 0
    keys = read_keys(file)
    assert keys.hashes and keys.hashes.keys() == {"reviewer", "editor"} and keys.uploaders == {"editor"}
    file.write_text("no key")
    assert f"{file}:1" in refused(capsys, "--index", str(index), "--keys-file", str(file))


def test_roles_default_to_the_answerer(index: Path) -> None:
    models = [{"name": "big", "model": "m", "base_url": "http://localhost/v1"}]
    config = ServiceConfig.model_validate({"corpora": {"a": str(index)}, "models": models, "answerer": "big"})
    assert set(config.roles.values()) == {"big"}


def gpus(**fields: Any) -> dict[str, float]:
    """GPUs of each deployment, by its name."""
    ingress = build(ServiceConfig(corpora={"labels": "index"}, reranker_model="/models/bge", **fields))
    found: dict[str, float] = {}
    todo: list[Any] = [ingress]
    while todo:
        deployment = todo.pop()._bound_deployment
        found[deployment.name] = deployment.ray_actor_options["num_gpus"]
        todo += [one for one in deployment.init_args if hasattr(one, "_bound_deployment")]
    return found


def test_it_takes_its_share_and_the_others_none() -> None:
    assert gpus(reranker_gpus=0.25) == {"Ingress": 0, "Retriever": 0, "Reranker": 0.25}
    assert gpus()["Reranker"] == 0


def test_only_a_service_that_takes_documents_has_an_indexer(index: Path, tmp_path: Path) -> None:
    assert "Indexer" not in gpus()
    assert gpus(http={"upload": True})["Indexer"] == 0
    file = tmp_path / "keys"
    add_key(file, "reader")
    assert "Indexer" not in gpus(http={"upload": True, "keys_file": file})
    add_key(file, "editor", upload=True)
    assert "Indexer" in gpus(http={"keys_file": file})


def test_more_than_one_card_is_refused() -> None:
    with pytest.raises(ValidationError, match="reranker_gpus"):
        gpus(reranker_gpus=2)


CONFIG = REPOSITORY / "cluster" / "qa_rag.yaml"
_DEPLOY = Path(__file__).parent / "deploy_process.py"


@pytest.fixture
def config() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
    return read


def test_config_fits_our_options(config: dict[str, Any]) -> None:
    [application] = config["applications"]
    service = ServiceConfig.model_validate(application["args"])
    assert service.roles["scorer"] == "ANSWERER"
    assert "runtime_env" not in application, "variables in runtime_env do not reach the proxies"


def test_overload_is_told_by_the_service_itself(config: dict[str, Any]) -> None:
    [application] = config["applications"]
    http = ServiceConfig.model_validate(application["args"]).http
    ingress = next(one for one in application["deployments"] if one["name"] == "Ingress")
    assert ingress["max_ongoing_requests"] > 2 * (http.in_flight + http.waiting), "look-ups have as many places"


@pytest.mark.service
@pytest.mark.nightly
def test_deployed_as_the_config_says(config: dict[str, Any], tmp_path: Path) -> None:
    """On this machine: without GPUs, with the rules for a model and an index of our own."""
    publish(tmp_path / "index", 1)
    config["http_options"]["port"] = free_port()
    [application] = config["applications"]
    application["args"] = {"corpora": {"leaflets": str(tmp_path / "index")}}
    application["deployments"] = [one for one in application["deployments"] if one["name"] != "Reranker"]
    for deployment in application["deployments"]:
        deployment["ray_actor_options"] = {"num_cpus": 0.1}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    line = [sys.executable, str(_DEPLOY), str(tmp_path / "config.yaml")]
    environment = {**os.environ, **SERVE_VARIABLES}
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    replicas, answer = done.stdout.splitlines()[-2:]
    assert replicas == "Ingress 2, Retriever 2"
    assert "edition 1" in answer
