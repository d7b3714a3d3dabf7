"""Served models on a Ray head of their own, in the engine's environment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from serving.served_model import load_served
from tests.engine.server import BLOCK, CONTEXT, ENGINE_VARIABLES, free_port, tail
from tests.environments import PROJECT, Unavailable
from tests.serving.service_process import PATIENCE

START_S = 600
END_S = 60
METRICS_S = 40
"""Ray exports metrics every few seconds."""


@dataclass(frozen=True)
class Up:
    """Where Serve's HTTP proxy is, Ray's page of metrics, the engines' among them, and what all of them said.

    `listed` are the statuses of /v1/models of the first model, from its first reply on, while the models started.
    """

    address: str
    metrics: str
    log: Path
    listed: list[int]

    def counted(self, name: str, model: str) -> float:
        """A counter of vLLM's (`prefix_cache_hits`), of all replicas of a model, by its id on the server."""
        pattern = rf'^ray_vllm_{name}_total{{.*model_name="{re.escape(model)}".*}} (\S+)$'
        return sum(map(float, re.findall(pattern, self._page(), re.MULTILINE)))

    def cached_tokens(self) -> list[int]:
        """What the cache of each replica holds, as its engine said: Ray forgets a gauge that is set once."""
        found = re.findall(r"KV cache size: ([\d,]+) tokens", self.log.read_text(encoding="utf-8", errors="replace"))
        return [int(tokens.replace(",", "")) for tokens in found]

    def _page(self) -> str:
        with urllib.request.urlopen(self.metrics, timeout=30) as page:
            return str(page.read().decode())

    def await_count(self, name: str, model: str, least: float) -> float:
        """As `counted`, once it is at least so much; raises TimeoutError where that never comes."""
        deadline = time.monotonic() + METRICS_S
        while (found := self.counted(name, model)) < least:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} of {model} stands at {found}, not at {least}")
            time.sleep(0.5)
        return found


def described(file: Path, model: Path, **fields: Any) -> Path:
    """Writes a served model's file for a directory with a tiny model: on CPU, half a CPU to Ray."""
    defaults = {
        "name": file.stem,
        "model": str(model),
        "device": "cpu",
        "cpus": 0.5,
        "context_length": CONTEXT,
        "concurrent": 8,
        "cache_gib": 0.0625,
        "size": {"parameters": 0.003, "layers": 2, "kv_heads": 2, "head_dim": 32, "weight_bytes": 4, "kv_bytes": 4},
        "engine": {"dtype": "float32", "enforce_eager": True, "block_size": BLOCK},
        "variables": ENGINE_VARIABLES,
    }
    file.write_text(yaml.safe_dump(defaults | fields))
    return file


@contextmanager
def serving(python: Path, files: Sequence[Path], folder: Path, cpus: int = 2) -> Iterator[Up]:
    """All of `files` up, as applications of one Serve instance; everything started ends with the block.

    Raises Unavailable where they do not come up; the log is `folder`/serve.log.
    """
    port, metrics, ready = free_port(), free_port(), folder / "ready"
    arguments = [str(port), str(metrics), str(cpus), str(ready), *map(str, files)]
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            ["nice", str(python), "-m", "tests.engine.serve_process", *arguments],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, **PATIENCE},
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        listed = _await(ready, process, folder / "serve.log", f"{address}/{load_served(files[0]).name}/v1/models")
        yield Up(address, f"http://127.0.0.1:{metrics}/metrics", folder / "serve.log", listed)
    finally:
        _end(process)


def _await(ready: Path, process: subprocess.Popen[bytes], log: Path, models: str) -> list[int]:
    """Wait for the models; return the statuses of the address `models` until then, without 404, the one of no route."""
    deadline, statuses = time.monotonic() + START_S, list[int]()
    while not ready.exists():
        try:
            with urllib.request.urlopen(models, timeout=5) as reply:
                statuses.append(reply.status)
        except urllib.error.HTTPError as error:
            statuses += [error.code] if error.code != 404 else []
        except OSError:
            pass
        if process.poll() is not None:
            raise Unavailable(f"Serve ended while starting; {log} ends:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise Unavailable(f"the models did not start within {START_S} s; {log} ends:\n{tail(log)}")
        time.sleep(0.3)
    return statuses


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ray's processes leave the group they were started in: so each is known by its parent, before that one ends."""
    started = descendants(process.pid)
    assert process.stdin
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
    for pid in (process.pid, *started):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def descendants(pid: int) -> list[int]:
    """The processes that came from this one, while all between are alive."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents.setdefault(int(entry.read_text().rsplit(")", 1)[1].split()[1]), []).append(int(entry.parent.name))
    found, open_ones = list[int](), [pid]
    while open_ones:
        children = parents.get(open_ones.pop(), [])
        found += children
        open_ones += children
    return found
