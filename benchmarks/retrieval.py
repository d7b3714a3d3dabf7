"""CPU time of BM25 within each label, compared with rank-bm25, and whether both rank alike.

    python -m benchmarks.retrieval [--run RUN]

Without --run, a run is built from the real labels of $FDARX_DATA first. Both libraries get the same texts and words,
make one index per label, and keep the ten best passages of every question. rank-bm25 scores all passages, which are
then sorted stably, so that among equal scores the lowest position is first. The ratio is that of the CPU seconds for
tokenizing, indexing and ranking over all labels. bm25s is shown as well if it is installed; it has another formula, and
so other rankings. Exits 1 if the ratio is below 5, or if a top 10 differs.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from statistics import median

import numpy as np
from rank_bm25 import BM25Okapi

from benchmarks import built_run, cpu_timed, run
from fdarx_core.retrieval import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.retrieval.lexical import tokenize
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.run_directory import read_labels

ROUNDS = 5
LEAST = 5.0
K = 10

Tops = list[list[int]]
Engine = Callable[[Sequence[str], Sequence[str]], Tops]


LabelQuestions = tuple[list[str], list[str]]
"""The search texts of a label's passages, and its questions."""


def ours(texts: Sequence[str], questions: Sequence[str]) -> Tops:
    """Rank with the retriever `bm25`."""
    found = get_retriever("bm25").rank(Queries(questions), Collection(texts), K)
    return [[position for position, _ in ranked] for ranked in found]


def plain(texts: Sequence[str], questions: Sequence[str]) -> Tops:
    """Rank with rank-bm25, as in its documentation."""
    index = BM25Okapi([tokenize(text) for text in texts])
    scores = (index.get_scores(tokenize(question)) for question in questions)
    return [np.argsort(-row, kind="stable")[:K].tolist() for row in scores]


def bm25s(texts: Sequence[str], questions: Sequence[str]) -> Tops:
    """Rank with bm25s and its defaults, on the same words."""
    index = import_module("bm25s").BM25()
    index.index([tokenize(text) for text in texts], show_progress=False)
    asked = [tokenize(question) for question in questions]
    found = index.retrieve(asked, k=min(K, len(texts)), show_progress=False, return_as="documents")
    return [list(map(int, row)) for row in found]


ENGINES: list[Engine] = [plain, ours, *([bm25s] if find_spec("bm25s") else [])]


def asked_labels(run: str) -> Iterator[LabelQuestions]:
    """Yield the labels of the run that have questions."""
    for rows in read_labels(RunDirectory.open(run)):
        if rows.questions:
            texts = [passage_search_text(passage) for passage in rows.passages.values()]
            yield texts, [question.question for question in rows.questions]


def ranked(engine: Engine, labels: Sequence[LabelQuestions]) -> Tops:
    """Rank the passages for all questions."""
    return [top for texts, questions in labels for top in engine(texts, questions)]


def load(run: str | None) -> list[LabelQuestions]:
    """Return the labels of the run, or of one that is built now."""
    if run is not None:
        return list(asked_labels(run))
    with tempfile.TemporaryDirectory() as folder:
        return list(asked_labels(str(built_run(folder, "--sample", "700"))))


def main(*, run: str | None = None) -> int:
    """Print rounds, ratio and agreement; return 1 if either is too low."""
    labels = load(run)
    count = sum(len(questions) for _, questions in labels)
    print(f"{count} questions on {len(labels)} labels, {sum(len(texts) for texts, _ in labels)} passages")
    results: dict[Engine, tuple[Tops, float]] = {}
    ratios = []
    for _ in range(ROUNDS):
        for engine in ENGINES:
            gc.collect()  # so that an engine does not pay for the garbage of another
            results[engine] = cpu_timed(partial(ranked, engine, labels))
        ratios.append(results[plain][1] / results[ours][1])
        times = "   ".join(f"{engine.__name__} {seconds:.2f} s" for engine, (_, seconds) in results.items())
        print(f"  {times}   ratio {ratios[-1]:.2f}")
    ratio = median(ratios)
    rate = count / results[ours][1]
    print(f"rank-bm25 ÷ ours, CPU time, median: {ratio:.2f} (at least {LEAST}); ours {rate:.0f} q/s")
    reference, _ = results[plain]
    for engine in ENGINES[1:]:
        equal = np.mean([a == b for a, b in zip(results[engine][0], reference, strict=True)])
        print(f"same ordered top {K} as rank-bm25: {engine.__name__} {equal:.2%} of questions")
    return int(ratio < LEAST or results[ours][0] != reference)


if __name__ == "__main__":
    run(main)
