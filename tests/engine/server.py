"""The real engine on loopback, serving a tiny model: vLLM's OpenAI-compatible server, on CPU."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.environments import Unavailable

MODEL = "tiny"
CONTEXT = 8192
START_S = 300
CACHED_TOKENS = 65_536
BLOCK = 32
"""Tokens of one cache block."""

_FLAGS = {
    "--served-model-name": MODEL,
    "--host": "127.0.0.1",
    "--dtype": "float32",
    "--max-model-len": str(CONTEXT),
    "--max-num-seqs": "8",
    "--block-size": str(BLOCK),
    "--kv-cache-memory-bytes": str(2**30),
    "--distributed-executor-backend": "uni",
}
_SWITCHES = ["--enforce-eager", "--enable-prefix-caching", "--enable-prompt-tokens-details"]
ENGINE_VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


def built(python: Path, folder: Path, texts: list[Path], hidden: int = 128, layers: int = 2) -> Path:
    """The tiny model, its tokenizer trained on these texts, in `folder`."""
    script = Path(__file__).with_name("tiny_model.py")
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    command = [str(python), str(script), str(folder), str(hidden), str(layers), *map(str, texts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise Unavailable(f"{script.name} failed: {done.stderr.strip()[-600:]}")
    return folder


_ONE_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
"""With this, "uni" is taken on CPUs: the engine computes by itself, not in a process that it starts for that, which
would import vLLM once more. The server and its engine still are two processes."""


@contextmanager
def running(
    python: Path, model: Path, log: Path, cached_tokens: int = CACHED_TOKENS, more: Sequence[str] = ()
) -> Iterator[str]:
    """Gives the server's address, `http://127.0.0.1:PORT`; it ends with the block, and all its processes with it.

    `more` are further options of the server's, which replace those of `_FLAGS`.
    """
    port = free_port()
    sized = _FLAGS | {"--num-gpu-blocks-override": str(cached_tokens // BLOCK)}
    flags = [part for flag in sized.items() for part in flag]
    module = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port)]
    command = ["nice", str(python), *module, *flags, *_SWITCHES, *more]
    with log.open("wb") as out:
        server = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            env=os.environ | ENGINE_VARIABLES | _ONE_PROCESS,
            start_new_session=True,
        )
    try:
        _await(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        _end(server)


def _await(health: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise Unavailable(f"the engine ended while starting; {log} ends:\n{tail(log)}")
        try:
            urllib.request.urlopen(health, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise Unavailable(f"the engine did not start within {START_S} s; {log} ends:\n{tail(log)}")


def _end(server: subprocess.Popen[bytes]) -> None:
    """The server's own end takes its workers with it; what is left of its process group is killed."""
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-3000:]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])
