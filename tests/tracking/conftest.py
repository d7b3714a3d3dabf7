"""MLflow's server, started once for all tests that log to it; where it can't be had they skip."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environments import Unavailable
from tests.tracking.mlflow_server import MlflowServer, running


@pytest.fixture(scope="session")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    try:
        with running(tmp_path_factory.mktemp("mlflow")) as server:
            yield server
    except Unavailable as reason:
        pytest.skip(f"no MLflow server to test against: {reason}")


@pytest.fixture(autouse=True)
def quick_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is down is not tried again."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.fixture
def finished(example_evaluation: Path, tmp_path: Path) -> Path:
    """A copy of a finished evaluation, into which the state of trackers may be written."""
    return Path(shutil.copytree(example_evaluation, tmp_path / "evaluation"))
