"""BM25 within each label over all its questions: ours against the plain rank-bm25 loop, and whether they agree.

    python -m benchmarks.retrieval [--run RUN]

Without a finished build run, one of the real labels of $FDARX_DATA is made first. Both read the same texts by the
same words, index once a label and keep the ten best passages of every question; rank-bm25 scores them all and sorts
stably, so that ties go to the lowest index. Each goes through all labels in turn; what counts are CPU seconds, words,
index and questions together. bm25s, where installed, is shown beside; its formula is another, so its rankings are too.
Exits 1 below a ratio of 5, or where one top 10 differs.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from time import process_time

import numpy as np
from rank_bm25 import BM25Okapi

from fdarx_core.retrieval import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.retrieval.lexical import tokenize
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.run_directory import read_labels
from jobs import cli

ROUNDS = 5
LEAST = 5.0
K = 10

Tops = list[list[int]]
Engine = Callable[[Sequence[str], Sequence[str]], Tops]


@dataclass(frozen=True, slots=True)
class Asked:
    """One label: what of its passages is searched, and its questions."""

    texts: list[str]
    questions: list[str]


def ours(texts: Sequence[str], questions: Sequence[str]) -> Tops:
    """The retriever `bm25`."""
    found = get_retriever("bm25").rank(Queries(questions), Collection(texts), K)
    return [[position for position, _ in ranked] for ranked in found]


def plain(texts: Sequence[str], questions: Sequence[str]) -> Tops:
    """rank-bm25 as its documentation shows it."""
    index = BM25Okapi([tokenize(text) for text in texts])
    scores = (index.get_scores(tokenize(question)) for question in questions)
    return [np.argsort(-row, kind="stable")[:K].tolist() for row in scores]


def bm25s(texts: Sequence[str], questions: Sequence[str]) -> Tops:
    """bm25s at its defaults, from the same words."""
    index = import_module("bm25s").BM25()
    index.index([tokenize(text) for text in texts], show_progress=False)
    asked = [tokenize(question) for question in questions]
    found = index.retrieve(asked, k=min(K, len(texts)), show_progress=False, return_as="documents")
    return [list(map(int, row)) for row in found]


ENGINES: list[Engine] = [plain, ours, *([bm25s] if find_spec("bm25s") else [])]


def asked_labels(run: str) -> Iterator[Asked]:
    """The run's labels that have questions."""
    for rows in read_labels(RunDirectory.open(run)):
        if rows.questions:
            texts = [passage_search_text(passage) for passage in rows.passages.values()]
            yield Asked(texts, [question.question for question in rows.questions])


def run_round(labels: Sequence[Asked]) -> tuple[dict[Engine, float], dict[Engine, Tops]]:
    """CPU seconds and rankings of every engine: each goes through all labels, as it would in an evaluation."""
    seconds: dict[Engine, float] = {}
    tops: dict[Engine, Tops] = {}
    for engine in ENGINES:
        gc.collect()  # what one engine leaves behind is not the next one's to clear
        start = process_time()
        tops[engine] = [found for label in labels for found in engine(label.texts, label.questions)]
        seconds[engine] = process_time() - start
    return seconds, tops


def load(run: str | None) -> list[Asked]:
    """The labels of the run, or of one that is built now."""
    if run is not None:
        return list(asked_labels(run))
    data = os.environ.get("FDARX_DATA", "../shared/data")
    with tempfile.TemporaryDirectory() as folder:
        cli.main(
            [
                "build",
                "--labels",
                f"{data}/spl/dm_spl_release_human_rx.zip",
                "--sample",
                "700",
                "--out",
                f"{folder}/run",
            ]
        )
        return list(asked_labels(f"{folder}/run"))


def main() -> int:
    """Print rounds, the ratio and the agreement; exit 1 where either falls short."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", help="run directory of a finished build")
    labels = load(parser.parse_args().run)
    count = sum(len(label.questions) for label in labels)
    print(f"{count} questions on {len(labels)} labels, {sum(len(label.texts) for label in labels)} passages")
    ratios = []
    for _ in range(ROUNDS):
        seconds, tops = run_round(labels)
        ratios.append(seconds[plain] / seconds[ours])
        times = "   ".join(f"{engine.__name__} {seconds[engine]:.2f} s" for engine in ENGINES)
        print(f"  {times}   ratio {ratios[-1]:.2f}")
    ratio = median(ratios)
    print(f"plain rank-bm25 over ours, median: {ratio:.2f} (at least {LEAST}); ours {count / seconds[ours]:.0f} q/s")
    equal = {engine: np.mean([a == b for a, b in zip(tops[engine], tops[plain], strict=True)]) for engine in ENGINES}
    for engine in ENGINES[1:]:
        print(f"same ordered top {K} as rank-bm25: {engine.__name__} {equal[engine]:.2%} of questions")
    return int(ratio < LEAST or equal[ours] < 1)


if __name__ == "__main__":
    sys.exit(main())
