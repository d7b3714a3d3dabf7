"""What each retriever puts first for each question, and how good that is: within a label, or over all labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fdarx_core.evaluation.scoring import describe, score_ranking
from fdarx_core.pipeline.sweep.parts import Parts
from fdarx_core.pipeline.sweep.vectors import Encoding, Vectors, read_vectors
from fdarx_core.pipeline.sweep.what import Sweep
from fdarx_core.pipeline.sweep.windows import Tell, by_actors
from fdarx_core.records import Equivalence, Passage, QuestionAnswer, Ranking, RetrievalScore
from fdarx_core.retrieval.collection import Collection, Queries, searchable
from fdarx_core.retrieval.ranking import Ranked
from fdarx_core.retrieval.registry import encoders_of, load_reranker, needs_reranker, retriever
from fdarx_core.retrieval.retriever import Retriever
from fdarx_core.storage import write_records
from fdarx_core.storage.benchmark import Examined

_LEAST_RANKED = 10


@dataclass(frozen=True, slots=True)
class Shelf:
    """Passages to search, and what stands at each position."""

    collection: Collection
    passages: Sequence[Passage]

    @classmethod
    def of(cls, passages: Sequence[Passage], vectors: Mapping[str, np.ndarray]) -> Shelf:
        return cls(Collection([searchable(passage) for passage in passages], vectors), passages)


def retrieve(parts: Parts, sweep: Sweep, numbers: Sequence[int], tell: Tell) -> None:
    """Embed what needs embedding, then rank and score, part by part; parts that are done are left alone."""
    for name in sorted({name for one in sweep.retrievers for name in encoders_of(one)}):
        there = {place.name for place in parts.run.parts(f"embeddings/{name}")}
        missing = [number for number in numbers if parts.run.part("", number).name not in there]
        by_actors(Encoding, (parts, name, sweep.directories), "encode", missing, tell, on_gpus=True)
    for name in sweep.retrievers:
        missing = sorted(set(numbers) - parts.marked(f"ranked/{name}", numbers))
        by_actors(Ranker, (parts, sweep, name, numbers), "rank", missing, tell, on_gpus=needs_reranker(name))


class Ranker:
    """A Ray actor that holds one retriever and, where that searches over all labels, all their passages."""

    def __init__(self, parts: Parts, sweep: Sweep, name: str, numbers: Sequence[int]) -> None:
        self._parts, self._sweep, self._name = parts, sweep, name
        reranker = load_reranker(sweep.directories) if needs_reranker(name) else None
        self._retriever: Retriever = retriever(name, reranker)
        self._corpus = self._all_of(numbers) if sweep.scope == "corpus" else None

    def rank(self, part: int) -> int:
        """Write rankings and their scores; returns the number of questions."""
        labels = self._parts.examined(part)
        vectors = self._vectors(part)
        equal = self._parts.equivalences(part)
        rows: list[Ranking] = []
        scored: list[RetrievalScore] = []
        elsewhere: dict[tuple[str, int], Passage] = {}
        places = _Places()
        for label in labels:
            own = places.next(label, vectors)
            if label.subject.whole:
                shelf = self._corpus or Shelf.of(label.passages, own.passages)
                found = self._rank_label(label, own, shelf, elsewhere)
                rows += found
                scored += _scores(label, found, equal)
        self._write("rankings", part, rows, Ranking)
        if self._corpus:
            self._write("elsewhere", part, list(elsewhere.values()), Passage)
        self._write("retrieval_scores", part, scored, RetrievalScore)
        self._parts.mark(f"ranked/{self._name}", part)
        return len(rows)

    def _rank_label(
        self, label: Examined, vectors: Slice, shelf: Shelf, elsewhere: dict[tuple[str, int], Passage]
    ) -> list[Ranking]:
        if not label.questions:
            return []
        queries = Queries([question.question for question in label.questions], vectors.questions)
        most = max(len(question.gold_passages) for question in label.questions)
        ranked = self._retriever.rank(queries, shelf.collection, max(_LEAST_RANKED, self._sweep.top_k, most))
        rows = [self._row(question, one, shelf) for question, one in zip(label.questions, ranked, strict=True)]
        for one in ranked if self._corpus else ():
            top = [shelf.passages[place] for place, _ in one[: self._sweep.top_k]]
            elsewhere.update({(p.set_id, p.doc_chunk_index): p for p in top if p.set_id != label.subject.set_id})
        return rows

    def _row(self, question: QuestionAnswer, ranked: Ranked, shelf: Shelf) -> Ranking:
        found = [shelf.passages[place] for place, _ in ranked]
        return Ranking(
            question.id,
            question.set_id,
            self._name,
            [passage.doc_chunk_index for passage in found],
            [passage.set_id for passage in found] if self._corpus else [],
            [float(score) for _, score in ranked],
        )

    def _all_of(self, numbers: Sequence[int]) -> Shelf:
        passages: list[Passage] = []
        vectors: dict[str, list[np.ndarray]] = {name: [] for name in self._retriever.encoders}
        for number in numbers:
            passages += [row for label in self._parts.examined(number) for row in label.passages]
            for name, held in self._vectors(number).items():
                vectors[name].append(held.passages)
        return Shelf.of(passages, {name: np.concatenate(held) for name, held in vectors.items()})

    def _vectors(self, part: int) -> dict[str, Vectors]:
        return {name: read_vectors(self._parts, name, part) for name in self._retriever.encoders}

    def _write(self, kind: str, part: int, rows: Sequence[Any], record: type) -> None:
        write_records(self._parts.run.part(f"{kind}/{self._name}", part), rows, record)


@dataclass(frozen=True, slots=True)
class Slice:
    """One label's vectors, by encoder."""

    passages: dict[str, np.ndarray]
    questions: dict[str, np.ndarray]


class _Places:
    """Where a label's rows stand in the part's vectors; labels are taken in their order."""

    def __init__(self) -> None:
        self._passages = self._questions = 0

    def next(self, label: Examined, vectors: Mapping[str, Vectors]) -> Slice:
        passages = slice(self._passages, self._passages + len(label.passages))
        questions = slice(self._questions, self._questions + len(label.questions))
        self._passages, self._questions = passages.stop, questions.stop
        return Slice(
            {name: held.passages[passages] for name, held in vectors.items()},
            {name: held.questions[questions] for name, held in vectors.items()},
        )


def _scores(label: Examined, rankings: Iterable[Ranking], equal: Mapping[str, Equivalence]) -> Iterator[RetrievalScore]:
    passages = {passage.doc_chunk_index: passage for passage in label.passages}
    for question, ranking in zip(label.questions, rankings, strict=True):
        described = describe(question, label.subject, passages)
        scored = score_ranking(described, question, ranking, equal.get(question.id))
        if scored is not None:
            yield scored
