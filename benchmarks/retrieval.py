"""CPU time of BM25 within each label, compared with rank-bm25, and whether both rank alike.

    python -m benchmarks.retrieval

Each fourth real label of $FDARX_DATA is asked 24 of the questions in marked/label_evidence.jsonl, which people wrote on
labels; FDARxBench has 17,000 questions on 700 labels.

Both libraries get the same texts and words, make one index per label, and keep the ten best passages of every
question. rank-bm25 scores all passages, which are then sorted stably, so that among equal scores the lowest position is
first. The libraries alternate in each round. One ratio is that of the loop over the questions of indexed labels. The
other includes the time to tokenize and to index the passages. Exits 1 if a ratio is below its bound, or if a top 10
differs.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from rank_bm25 import BM25Okapi

from benchmarks import cpu_timed, read_documents, run
from fdarx_core.labels import parse_document
from fdarx_core.retrieval import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.retrieval.lexical import tokenize
from fdarx_core.storage import Location
from fdarx_core.storage.tables import read_json_lines

ROUNDS = 5
LEAST_RANKING, LEAST_ALL = 10.0, 4.0
K = 10
QUESTIONS_PER_LABEL = 24
QUESTIONS = Location(Path(__file__).parent / "marked" / "label_evidence.jsonl")

Tops = list[list[int]]
Rank = Callable[[Sequence[str]], Tops]
"""Returns the best passages of a label for each question, by their positions."""
LabelQuestions = tuple[list[str], list[str]]
"""The search texts of a label's passages, and its questions."""


def index_with_fdarx(texts: Sequence[str]) -> Rank:
    """Index a label for the retriever `bm25`."""
    collection = Collection(texts)
    _ = collection.bm25  # made at its first use

    def rank(questions: Sequence[str]) -> Tops:
        found = get_retriever("bm25").rank(Queries(questions), collection, K)
        return [[position for position, _ in ranked] for ranked in found]

    return rank


def index_with_rank_bm25(texts: Sequence[str]) -> Rank:
    """Index a label with rank-bm25, as in its documentation."""
    index = BM25Okapi([tokenize(text) for text in texts])

    def rank(questions: Sequence[str]) -> Tops:
        scores = (index.get_scores(tokenize(question)) for question in questions)
        return [np.argsort(-row, kind="stable")[:K].tolist() for row in scores]

    return rank


def real_labels() -> Iterator[LabelQuestions]:
    """Yield each fourth real label with questions by people, on any label."""
    questions = [line.row["question"] for line in read_json_lines(QUESTIONS)]
    rng = random.Random(0)
    for data in read_documents()[::4]:
        _, passages = parse_document(data)
        yield [passage_search_text(passage) for passage in passages], rng.sample(questions, QUESTIONS_PER_LABEL)


def run_round(index: Callable[[Sequence[str]], Rank], labels: Sequence[LabelQuestions]) -> tuple[float, float, Tops]:
    """Index all labels, then rank the passages of each; return the CPU seconds of both, and the rankings."""
    gc.collect()  # so that a library does not pay for the garbage of the other
    indexed, indexing = cpu_timed(lambda: [index(texts) for texts, _ in labels])
    asked = [(rank, questions) for rank, (_, questions) in zip(indexed, labels, strict=True)]
    tops, ranking = cpu_timed(lambda: [top for rank, questions in asked for top in rank(questions)])
    return indexing, ranking, tops


def main() -> int:
    """Print rounds, ratios and agreement; return 1 if one is too low."""
    labels = list(real_labels())
    count = sum(len(questions) for _, questions in labels)
    print(f"{count} questions on {len(labels)} labels, {sum(len(texts) for texts, _ in labels)} passages")
    rounds = []
    for _ in range(ROUNDS):
        theirs, ours = run_round(index_with_rank_bm25, labels), run_round(index_with_fdarx, labels)
        rounds.append((theirs, ours))
        times = (f"{name} {did[0]:.2f} + {did[1]:.2f} s" for name, did in (("RankBm25", theirs), ("Ours", ours)))
        print(f"  indexing + ranking: {'   '.join(times)}")
    ranking = median(theirs[1] / ours[1] for theirs, ours in rounds)
    everything = median(sum(theirs[:2]) / sum(ours[:2]) for theirs, ours in rounds)
    rate = count / median(ours[1] for _, ours in rounds)
    print(f"rank-bm25 ÷ ours, ranking, median: {ranking:.2f} (at least {LEAST_RANKING}); ours {rate:.0f} q/s")
    print(f"rank-bm25 ÷ ours, with indexing, median: {everything:.2f} (at least {LEAST_ALL})")
    their_tops, our_tops = (found[2] for found in rounds[-1])
    equal = np.mean([a == b for a, b in zip(our_tops, their_tops, strict=True)])
    print(f"same ordered top {K} as rank-bm25: {equal:.2%} of questions")
    return int(ranking < LEAST_RANKING or everything < LEAST_ALL or our_tops != their_tops)


if __name__ == "__main__":
    run(main)
