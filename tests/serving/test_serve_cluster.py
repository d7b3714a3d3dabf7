"""The Serve config of `serve deploy`: it fits Serve's schema and our own, and what it describes runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from serving.config import ServiceConfig
from serving.environment import FAST
from tests.serving.editions import publish
from tests.serving.service_process import REPOSITORY, free_port

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
    assert application["runtime_env"]["env_vars"] == FAST


def test_overload_is_told_by_the_service_itself(config: dict[str, Any]) -> None:
    [application] = config["applications"]
    http = ServiceConfig.model_validate(application["args"]).http
    ingress = next(one for one in application["deployments"] if one["name"] == "Ingress")
    assert ingress["max_ongoing_requests"] > http.in_flight + http.waiting


@pytest.mark.service
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
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    replicas, answer = done.stdout.splitlines()[-2:]
    assert replicas == "Ingress 2, Model 2, Retriever 2"
    assert "edition 1" in answer
