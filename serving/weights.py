"""What a model's directory must hold before an engine is started on it."""

from __future__ import annotations

from pathlib import Path

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
_CONFIGS = ("config.json", "params.json")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "*.tiktoken")


def lacking(directory: str) -> str | None:
    """What is missing there and what to do, on one line; None where a model can be."""
    folder = Path(directory)
    if not folder.is_dir():
        return f"{directory} is no directory on this machine; every machine, this one included, must have it there"
    wanted = {"configuration": _CONFIGS, "tokenizer": _TOKENIZERS, "weights": _WEIGHTS}
    for what, patterns in wanted.items():
        if not any(next(folder.glob(pattern), None) for pattern in patterns):
            return f"{directory} has no {what} ({', '.join(patterns)}); save the whole model there, tokenizer included"
    return None
