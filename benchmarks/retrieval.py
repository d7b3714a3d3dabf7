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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from rank_bm25 import BM25Okapi

from benchmarks import cpu_timed, json_lines, read_documents, run
from fdarx_core.labels import parse_document
from fdarx_core.retrieval import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.retrieval.lexical import tokenize

ROUNDS = 5
LEAST_RANKING, LEAST_ALL = 10.0, 4.0
K = 10
QUESTIONS_PER_LABEL = 24
QUESTIONS = Path(__file__).parent / "marked" / "label_evidence.jsonl"

Tops = list[list[int]]

LabelQuestions = tuple[list[str], list[str]]
"""The search texts of a label's passages, and its questions."""


class Ours:
    """The retriever `bm25`."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.collection = Collection(texts)
        _ = self.collection.bm25  # made at its first use

    def rank(self, questions: Sequence[str]) -> Tops:
        found = get_retriever("bm25").rank(Queries(questions), self.collection, K)
        return [[position for position, _ in ranked] for ranked in found]


class RankBm25:
    """rank-bm25, as in its documentation."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.index = BM25Okapi([tokenize(text) for text in texts])

    def rank(self, questions: Sequence[str]) -> Tops:
        scores = (self.index.get_scores(tokenize(question)) for question in questions)
        return [np.argsort(-row, kind="stable")[:K].tolist() for row in scores]


@dataclass
class Round:
    """What one engine did in one round: the CPU seconds for indexing and for ranking, and its rankings."""

    indexing: float
    ranking: float
    tops: Tops

    @property
    def all(self) -> float:
        """The CPU seconds in all."""
        return self.indexing + self.ranking


def real_labels() -> Iterator[LabelQuestions]:
    """Yield each fourth real label with questions by people, on any label."""
    questions = [row["question"] for row in json_lines(QUESTIONS)]
    rng = random.Random(0)
    for data in read_documents()[::4]:
        _, passages = parse_document(data)
        yield [passage_search_text(passage) for passage in passages], rng.sample(questions, QUESTIONS_PER_LABEL)


def run_round(engine: type[Ours] | type[RankBm25], labels: Sequence[LabelQuestions]) -> Round:
    """Index all labels, then rank the passages of each."""
    gc.collect()  # so that an engine does not pay for the garbage of another
    indexed, indexing = cpu_timed(lambda: [engine(texts) for texts, _ in labels])
    asked = [(index, questions) for index, (_, questions) in zip(indexed, labels, strict=True)]
    tops, ranking = cpu_timed(lambda: [top for index, questions in asked for top in index.rank(questions)])
    return Round(indexing, ranking, tops)


def main() -> int:
    """Print rounds, ratios and agreement; return 1 if one is too low."""
    labels = list(real_labels())
    count = sum(len(questions) for _, questions in labels)
    print(f"{count} questions on {len(labels)} labels, {sum(len(texts) for texts, _ in labels)} passages")
    rounds = []
    for _ in range(ROUNDS):
        one = {engine: run_round(engine, labels) for engine in (RankBm25, Ours)}
        rounds.append(one)
        times = (f"{engine.__name__} {did.indexing:.2f} + {did.ranking:.2f} s" for engine, did in one.items())
        print(f"  indexing + ranking: {'   '.join(times)}")
    ranking = median(one[RankBm25].ranking / one[Ours].ranking for one in rounds)
    everything = median(one[RankBm25].all / one[Ours].all for one in rounds)
    rate = count / median(one[Ours].ranking for one in rounds)
    print(f"rank-bm25 ÷ ours, ranking, median: {ranking:.2f} (at least {LEAST_RANKING}); ours {rate:.0f} q/s")
    print(f"rank-bm25 ÷ ours, with indexing, median: {everything:.2f} (at least {LEAST_ALL})")
    last = rounds[-1]
    equal = np.mean([a == b for a, b in zip(last[Ours].tops, last[RankBm25].tops, strict=True)])
    print(f"same ordered top {K} as rank-bm25: {equal:.2%} of questions")
    fast = ranking >= LEAST_RANKING and everything >= LEAST_ALL
    return int(not fast or last[Ours].tops != last[RankBm25].tops)


if __name__ == "__main__":
    run(main)
