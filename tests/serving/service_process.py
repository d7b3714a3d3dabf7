"""`fdarx serve` as a user runs it, with Ray's token, in a process of its own, with its replicas' process ids."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

REPOSITORY = Path(__file__).parents[2]
_READY_WITHIN_S = 180.0
PATIENCE = {"RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "50"}
"""Variables of Serve. It kills a proxy that is not up within three times 5 s, which on a loaded machine none is."""


@dataclass
class Service:
    """One that runs."""

    process: subprocess.Popen[str]
    url: str
    said: Path
    log: Path

    @property
    def output(self) -> str:
        """What the terminal has seen so far."""
        return self.said.read_text()

    def requests(self) -> list[dict[str, Any]]:
        """The lines of its log."""
        return [orjson.loads(line) for line in self.log.read_text().splitlines()]

    def replicas(self, deployment: str) -> list[int]:
        """The process ids of a deployment's replicas."""
        return sorted(
            pid for pid in descendants(self.process.pid) if f"ray::ServeReplica:fdarx:{deployment}" in _title(pid)
        )

    def stop(self, number: int = signal.SIGINT) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait(90)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(folder: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[Service]:
    """The service with these options, once it is ready."""
    port, said, log = free_port(), folder / "said.txt", folder / "requests.jsonl"
    line = [sys.executable, "-m", "jobs.serve", "--port", str(port), "--log", str(log), *options]
    inherited = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
    with said.open("w") as stream:
        process = subprocess.Popen(
            line,
            cwd=REPOSITORY,
            stdout=stream,
            stderr=stream,
            text=True,
            env={**inherited, **PATIENCE, **(environment or {})},
        )
        service = Service(process, f"http://127.0.0.1:{port}", said, log)
        try:
            _await_ready(service)
            yield service
        finally:
            if process.poll() is None:
                service.stop()


async def post(session: aiohttp.ClientSession, path: str, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON of a reply; whatever is no JSON comes as {"text": ...}."""
    async with session.post(path, json=body, headers=headers) as reply:
        return reply.status, _read(await reply.read())


def _read(data: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = orjson.loads(data)
        return found
    except orjson.JSONDecodeError:
        return {"text": data.decode("utf-8", "replace")}


def _await_ready(service: Service) -> None:
    until = time.monotonic() + _READY_WITHIN_S
    while "FDARx answers at" not in service.output:
        if service.process.poll() is not None or time.monotonic() > until:
            raise AssertionError(f"the service did not start: {service.output}")
        time.sleep(0.2)


def descendants(root: int) -> Iterator[int]:
    """Process ids of all descendants."""
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    for pid in parents:
        at: int | None = pid
        while at is not None and at != root:
            at = parents.get(at)
        if at == root and pid != root:
            yield pid


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
