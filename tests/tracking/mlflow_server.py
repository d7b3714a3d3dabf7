"""MLflow's tracking server on this machine, with SQLite and artifacts in a folder, read over its REST API."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import orjson

from tests.environments import Unavailable
from tests.tracking.environment import installed

_READY_WITHIN_S = 240.0


@dataclass(frozen=True)
class MlflowServer:
    """One that runs; `url` is its tracking URI."""

    url: str

    def runs(self, experiment: str) -> list[dict[str, Any]]:
        """All runs of an experiment, as the server gives them."""
        found = self._get("experiments/get-by-name", experiment_name=experiment)["experiment"]["experiment_id"]
        runs: list[dict[str, Any]] = self._post("runs/search", experiment_ids=[found]).get("runs", [])
        return runs

    def files(self, run_id: str, folder: str = "") -> list[str]:
        """The paths of all artifacts of a run."""
        paths: list[str] = []
        for file in self._get("artifacts/list", run_id=run_id, path=folder).get("files", []):
            paths += self.files(run_id, file["path"]) if file.get("is_dir") else [file["path"]]
        return sorted(paths)

    def content(self, run_id: str, path: str) -> bytes:
        """The content of an artifact."""
        with urlopen(f"{self.url}/get-artifact?{urlencode({'run_id': run_id, 'path': path})}") as reply:
            return bytes(reply.read())

    def _get(self, endpoint: str, **fields: str) -> dict[str, Any]:
        return _json(Request(f"{self.url}/api/2.0/mlflow/{endpoint}?{urlencode(fields)}"))

    def _post(self, endpoint: str, **fields: Any) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        return _json(Request(f"{self.url}/api/2.0/mlflow/{endpoint}", orjson.dumps(fields), headers))


def values(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The keys and values of parameters, metrics or tags of a run."""
    return {row["key"]: row["value"] for row in rows}


@contextmanager
def running(folder: Path) -> Iterator[MlflowServer]:
    """The server, once it answers."""
    command = installed()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    line = [str(command), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    line += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "files")]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": ""}
    with (folder / "server.log").open("w") as log:
        # A group of its own: the command's workers end with it.
        process = subprocess.Popen(line, stdout=log, stderr=log, env=environment, start_new_session=True)
    server = MlflowServer(f"http://127.0.0.1:{port}")
    try:
        _await(server, process, folder / "server.log")
        yield server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _await(server: MlflowServer, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urlopen(f"{server.url}/health", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise Unavailable(f"the server does not answer: {log.read_text()[-600:]}")


def _json(request: Request) -> dict[str, Any]:
    with urlopen(request) as reply:
        found: dict[str, Any] = orjson.loads(reply.read())
        return found
