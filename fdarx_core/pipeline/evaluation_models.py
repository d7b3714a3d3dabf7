"""Heavy parts of an evaluation that come before and after asking: embeddings, rankings, and BERTScore.

Each is made once per part by actors that hold the model, or search the corpus, and kept with the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from fdarx_core.evaluation.scoring import question_features, score_ranking
from fdarx_core.evaluation.similarity import SemanticScorer
from fdarx_core.pipeline.corpus_files import local_corpus, write_corpus
from fdarx_core.pipeline.embeddings import PartEncoder, PartVectors, read_vectors
from fdarx_core.pipeline.evaluation_steps import EvaluationSpec, read_equivalences, read_items
from fdarx_core.pipeline.executor import Executor, PartProgress
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Resource
from fdarx_core.records import Equivalence, Passage, Prediction, QuestionAnswer, Ranking, RetrievalScore
from fdarx_core.retrieval.corpus import open_corpus
from fdarx_core.retrieval.encoders import WindowVectors
from fdarx_core.retrieval.lexical import RankedList
from fdarx_core.retrieval.retrievers import (
    Collection,
    Queries,
    Retriever,
    get_retriever,
    load_reranker,
    needs_reranker,
    passage_search_text,
    required_encoders,
)
from fdarx_core.storage import Location, read_table, write_table
from fdarx_core.storage.benchmark_reader import BenchmarkItem
from fdarx_core.storage.node_copies import NodeCopies

_LEAST_RANKED = 10

SearchSpace: TypeAlias = tuple[Collection, Sequence[Passage]]
"""A collection to search, and the passage at each of its positions."""


def retrieve(
    executor: Executor, parts: PartFiles, spec: EvaluationSpec, numbers: Sequence[int], progress: PartProgress
) -> None:
    """Embed what needs embedding, then rank and score, part by part; parts that are done are left alone."""
    encoders = sorted({name for one in spec.retrievers for name in required_encoders(one)})
    for name in encoders:
        missing = sorted(set(numbers) - parts.there(f"embeddings/{name}", numbers))
        resource = executor.models_resource(PartEncoder, parts, name, spec.directories, items=len(missing))
        _work_through(executor, resource, "encode", missing, progress)
    if spec.scope == "corpus":
        write_corpus(executor, parts, encoders, numbers, progress)
    for name in spec.retrievers:
        missing = sorted(set(numbers) - parts.marked(f"ranked/{name}", numbers))
        arguments = (parts, spec, name, numbers)
        if needs_reranker(name):
            resource = executor.models_resource(Ranker, *arguments, items=len(missing))
        else:
            resource = executor.cpu_resource(Ranker, *arguments, items=len(missing))
        _work_through(executor, resource, "rank", missing, progress)


def score_semantics(
    executor: Executor, parts: PartFiles, spec: EvaluationSpec, numbers: Sequence[int], progress: PartProgress
) -> None:
    """Compute BERTScore of the answers of each model that are graded and not scored yet."""
    missing = [
        (model, number)
        for model in spec.graded
        for number in sorted(parts.marked(f"graded/{model}", numbers) - parts.marked(f"bert_scores/{model}", numbers))
    ]
    arguments = (parts, spec.bertscore, spec.bertscore_layers)
    resource = executor.models_resource(BertScorer, *arguments, items=len(missing))
    _work_through(executor, resource, "score", missing, progress)


def _work_through(
    executor: Executor, resource: Resource, method: str, items: Sequence[Any], progress: PartProgress
) -> None:
    if not items:
        return
    progress(0, len(items))
    for done, _ in enumerate(executor.map_resource(resource, method, items), 1):
        progress(done, len(items))


def _search_space(passages: Sequence[Passage], vectors: Mapping[str, WindowVectors]) -> SearchSpace:
    return Collection([passage_search_text(passage) for passage in passages], vectors), passages


class Ranker:
    """Holds one retriever and, where that searches all labels, their corpus, which is mapped from the local disk."""

    def __init__(self, parts: PartFiles, spec: EvaluationSpec, name: str, numbers: Sequence[int]) -> None:
        self._parts, self._spec, self._name = parts, spec, name
        reranker = load_reranker(spec.directories) if needs_reranker(name) else None
        self._retriever: Retriever = get_retriever(name, reranker)
        self._copies = NodeCopies(parts.run.root) if spec.scope == "corpus" else None
        self._corpus: SearchSpace | None = None
        if self._copies is not None:
            self._corpus = open_corpus(local_corpus(parts, self._copies, sorted(self._retriever.encoders), numbers))

    def close(self) -> None:
        """End the use of local copies of the corpus; the last process on a machine deletes them."""
        if self._copies is not None:
            self._copies.close()

    def rank(self, part: int) -> int:
        """Write rankings and their scores; returns the number of questions."""
        equal = read_equivalences(self._parts, part)
        rows: list[Ranking] = []
        scored: list[RetrievalScore] = []
        elsewhere: dict[tuple[str, int], Passage] = {}
        for label, own in _by_label(read_items(self._parts, part), self._vectors(part)):
            if label.subject.whole:
                space = self._corpus or _search_space(
                    label.passages, {name: vectors for name, (vectors, _) in own.items()}
                )
                found = self._rank_label(label, own, space, elsewhere)
                rows += found
                scored += _scores(label, found, equal)
        self._parts.write(f"rankings/{self._name}", part, rows, Ranking)
        if self._corpus:
            self._parts.write(f"elsewhere/{self._name}", part, elsewhere.values(), Passage)
        self._parts.write(f"retrieval_scores/{self._name}", part, scored, RetrievalScore)
        self._parts.mark(f"ranked/{self._name}", part)
        return len(rows)

    def _rank_label(
        self,
        label: BenchmarkItem,
        vectors: Mapping[str, PartVectors],
        space: SearchSpace,
        elsewhere: dict[tuple[str, int], Passage],
    ) -> list[Ranking]:
        if not label.questions:
            return []
        collection, passages = space
        by_encoder = {name: of_questions for name, (_, of_questions) in vectors.items()}
        queries = Queries([question.question for question in label.questions], by_encoder)
        most = max(len(question.gold_passages) for question in label.questions)
        ranked = self._retriever.rank(queries, collection, max(_LEAST_RANKED, self._spec.top_k, most))
        rows = [self._row(question, one, passages) for question, one in zip(label.questions, ranked, strict=True)]
        for one in ranked if self._corpus else ():
            top = [passages[place] for place, _ in one[: self._spec.top_k]]
            elsewhere.update({(p.set_id, p.doc_chunk_index): p for p in top if p.set_id != label.subject.set_id})
        return rows

    def _row(self, question: QuestionAnswer, ranked: RankedList, passages: Sequence[Passage]) -> Ranking:
        found = [passages[place] for place, _ in ranked]
        return Ranking(
            question.id,
            question.set_id,
            self._name,
            [passage.doc_chunk_index for passage in found],
            [passage.set_id for passage in found] if self._corpus else [],
            [float(score) for _, score in ranked],
        )

    def _vectors(self, part: int) -> dict[str, PartVectors]:
        return {name: read_vectors(self._parts, name, part) for name in self._retriever.encoders}


def _by_label(
    labels: Sequence[BenchmarkItem], vectors: Mapping[str, PartVectors]
) -> Iterator[tuple[BenchmarkItem, dict[str, PartVectors]]]:
    """Yield each label of a part with its vectors by encoder, from those of the part."""
    passage = question = 0
    for label in labels:
        passages = slice(passage, passage + len(label.passages))
        questions = slice(question, question + len(label.questions))
        passage, question = passages.stop, questions.stop
        yield label, {name: (own.select(passages), asked[questions]) for name, (own, asked) in vectors.items()}


def _scores(
    label: BenchmarkItem, rankings: Iterable[Ranking], equal: Mapping[str, Equivalence]
) -> Iterator[RetrievalScore]:
    passages = {passage.doc_chunk_index: passage for passage in label.passages}
    for question, ranking in zip(label.questions, rankings, strict=True):
        described = question_features(question, label.subject, passages)
        scored = score_ranking(described, question, ranking, equal.get(question.id))
        if scored is not None:
            yield scored


class BertScorer:
    """Holds one BERTScore model."""

    def __init__(self, parts: PartFiles, directory: str, layers: int | None) -> None:
        self._parts = parts
        self._scorer = SemanticScorer(directory, layers=layers)

    def score(self, place: tuple[str, int]) -> int:
        """Score a model's answers in a part against the gold answers; returns their number."""
        model, part = place
        questions = self._parts.read("questions", part, QuestionAnswer)
        answers = {row.id: row.answer for row in questions if row.type != "refusal"}
        scored = [
            row
            for row in self._parts.read(f"predictions/{model}", part, Prediction)
            if row.question_id in answers and row.outcome in ("answered", "refused")
        ]
        scores = self._scorer.scores([row.answer for row in scored], [answers[row.question_id] for row in scored])
        table = pa.table({"prediction_id": [row.id for row in scored], "bert_score": pa.array(scores, pa.float64())})
        write_table(self._parts.run.part(f"bert_scores/{model}", part), table)
        self._parts.mark(f"bert_scores/{model}", part)
        return len(scored)


def with_bert_scores(places: Iterable[Location], scores: pa.Table) -> pa.Table:
    """Return a Score table with its bert_score column filled in from the parts of `BertScorer` at these places."""
    found: dict[str, float] = {}
    for place in places:
        table = read_table(place, ["prediction_id", "bert_score"])
        found.update(zip(table["prediction_id"].to_pylist(), table["bert_score"].to_pylist(), strict=True))
    column = pa.array([found.get(one) for one in scores["prediction_id"].to_pylist()], pa.float64())
    return scores.set_column(scores.schema.get_field_index("bert_score"), "bert_score", column)
