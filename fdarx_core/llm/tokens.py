"""Counting tokens before anything is asked: by the model's own tokenizer where it lies here, else by estimate."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from fdarx_core.llm.models import ModelConfig

CHARACTERS_A_TOKEN = 4.0
"""Of English prose with figures: on drug labels, the vocabularies of Llama 3, Qwen and Mistral give 3.9 to 4.1 over
many labels, 3.7 to 4.6 on most single ones, 4.4 to 4.7 on short questions and answers (benchmarks/RESULTS.md)."""
FRAME_TOKENS = 4
"""That a chat template puts around a message."""

Counter = Callable[[str], int]


def count_messages(messages: list[dict[str, str]], counter: Counter) -> int:
    """Prompt tokens of a conversation, its template's marks included."""
    return sum(counter(message["content"]) + FRAME_TOKENS for message in messages)


def estimated(text: str) -> int:
    """Tokens by the number of characters."""
    return round(len(text) / CHARACTERS_A_TOKEN)


def counter_of(model: ModelConfig | None) -> tuple[Counter, bool]:
    """How to count a model's tokens, and whether that is exact: by `tokenizer.json` of its local directory.

    Raises ValueError where the model names a directory that holds no tokenizer, or the `models` extra is missing.
    """
    if model is None or model.tokenizer is None:
        return estimated, False
    return _local(model.tokenizer), True


@cache
def _local(directory: str) -> Counter:
    file = Path(directory) / "tokenizer.json"
    if not file.is_file():
        raise ValueError(f"tokenizer: {directory} holds no tokenizer.json; give the model's directory, or leave it out")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ValueError("tokenizer: counting by it needs the extra: pip install 'fdarx[models]'") from None
    tokenizer = Tokenizer.from_file(str(file))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
