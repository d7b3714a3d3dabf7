"""Heavy parts of an evaluation that come before and after asking: embeddings, rankings, and BERTScore.

Each is made once per part by actors that hold the model, or the passages of all labels, and kept with the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.scoring import question_features, score_ranking
from fdarx_core.evaluation.similarity import AnswerSimilarity
from fdarx_core.pipeline.evaluation_steps import EvaluationSetup, read_equivalences, read_items
from fdarx_core.pipeline.executor import Call, Executor, PartProgress
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.records import Passage, Prediction, QuestionAnswer, Ranking, RetrievalScore
from fdarx_core.retrieval.encoders import HeadedText, Vectors, WindowVectors
from fdarx_core.retrieval.lexical import Mask, RankedList, top_k
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.retrievers import (
    Collection,
    Queries,
    Retriever,
    VectorSearch,
    get_retriever,
    load_encoder,
    load_reranker,
    needs_reranker,
    passage_search_text,
    required_encoders,
)
from fdarx_core.storage import Location, read_table, write_table
from fdarx_core.storage.benchmark_reader import BenchmarkItem

_BLOCK_ROWS = 64
"""Vectors are filled up to a multiple of so many rows: libraries compute the products of the last rows of a matrix in
another way, whose last bits differ, so that equal passages would not tie."""
_LEAST_RANKED = 10

PartVectors: TypeAlias = tuple[WindowVectors, Vectors]
"""The vectors of some passages and questions by one encoder, in the order of the rows."""

SearchSpace: TypeAlias = tuple[Collection, Sequence[Passage]]
"""A collection to search, and the passage at each of its positions."""


def retrieve(
    executor: Executor, parts: PartFiles, spec: EvaluationSetup, numbers: Sequence[int], progress: PartProgress
) -> None:
    """Embed what needs embedding, then rank and score, part by part; parts that are done are left alone."""
    for name in sorted({name for retriever in spec.retrievers for name in required_encoders(retriever)}):
        missing = sorted(set(numbers) - parts.existing(f"embeddings/{name}", numbers))
        resource = executor.models_resource(PartEncoder, parts, name, spec.directories, items=len(missing))
        _work_through(executor, f"embed for {name}", Call(resource, "encode"), missing, progress)
    for name in spec.retrievers:
        missing = sorted(set(numbers) - parts.complete_parts(f"ranked/{name}", numbers))
        resource_for = executor.models_resource if needs_reranker(name) else executor.cpu_resource
        resource = resource_for(Ranker, parts, spec, name, numbers, items=len(missing))
        _work_through(executor, f"rank by {name}", Call(resource, "rank"), missing, progress)


def score_semantics(
    executor: Executor, parts: PartFiles, spec: EvaluationSetup, numbers: Sequence[int], progress: PartProgress
) -> None:
    """Compute BERTScore of the answers of each model that are graded and not scored yet."""
    graded = {model: parts.complete_parts(f"graded/{model}", numbers) for model in spec.graded}
    missing = [
        (model, number)
        for model, complete in graded.items()
        for number in sorted(complete - parts.complete_parts(f"bert_scores/{model}", numbers))
    ]
    arguments = (parts, spec.bertscore, spec.bertscore_layers)
    resource = executor.models_resource(BertScorer, *arguments, items=len(missing))
    _work_through(executor, "BERTScore", Call(resource, "score"), missing, progress)


def _work_through(executor: Executor, name: str, call: Call, items: Sequence[Any], progress: PartProgress) -> None:
    if not items:
        return
    progress(0, len(items), "")
    for done, _ in enumerate(executor.flow(name, items, call), 1):
        progress(done, len(items), "")


class PartEncoder:
    """Embeds the passages and questions of parts with one encoder."""

    def __init__(self, parts: PartFiles, name: str, directories: ModelDirectories) -> None:
        self._parts, self._name = parts, name
        self._encoder = load_encoder(name, directories)

    def encode(self, part: int) -> int:
        """Write the vectors of a part; returns how many passages it has."""
        labels = read_items(self._parts, part)
        passages = self._encoder.encode_passages(
            [HeadedText(row.section_path, row.text) for label in labels for row in label.passages]
        )
        questions = self._encoder.encode_questions([row.question for label in labels for row in label.questions])
        values = pa.array(np.concatenate([passages.rows, questions]).astype(np.float32).ravel())
        of_passages = np.repeat(np.arange(len(passages)), passages.counts)
        columns = {
            "kind": pa.array(["passage"] * len(passages.rows) + ["question"] * len(questions), pa.string()),
            "row": pa.array(np.concatenate([of_passages, np.arange(len(questions))]), pa.int64()),
            "vector": pa.FixedSizeListArray.from_arrays(values, self._encoder.dimensions),
        }
        write_table(self._parts.run.part(f"embeddings/{self._name}", part), pa.table(columns))
        return len(passages)


def read_vectors(parts: PartFiles, name: str, part: int) -> PartVectors:
    """Return what `PartEncoder` wrote of a part."""
    table = read_table(parts.run.part(f"embeddings/{name}", part))
    kinds, column = np.asarray(table["kind"].to_pylist()), table["vector"].combine_chunks()
    vectors = column.flatten().to_numpy().reshape(-1, column.type.list_size)
    of_passages = table["row"].to_numpy()[kinds == "passage"]
    return WindowVectors(vectors[kinds == "passage"], np.bincount(of_passages)), vectors[kinds == "question"]


def _vector_search(parts: PartFiles, name: str, numbers: Sequence[int]) -> VectorSearch:
    """Return the search of the vectors of all passages by one encoder.

    Questions are compared one by one, so that a score does not depend on their number: the last bits of a product of
    matrices depend on their shapes.
    """
    vectors = WindowVectors.concatenate([read_vectors(parts, name, part)[0] for part in numbers])
    size, filling = len(vectors), -len(vectors.rows) % _BLOCK_ROWS
    if filling:
        zeros = np.zeros((filling, vectors.rows.shape[1]), np.float32)
        vectors = WindowVectors.concatenate([vectors, WindowVectors(zeros, np.array([filling]))])

    def search(queries: Vectors, k: int, allowed: Mask | None) -> list[RankedList]:
        return [top_k(vectors.scores(query[None])[:, :size], k, allowed)[0] for query in queries]

    return search


class Ranker:
    """Holds one retriever and, where that searches all labels, their passages."""

    def __init__(self, parts: PartFiles, spec: EvaluationSetup, name: str, numbers: Sequence[int]) -> None:
        self._parts, self._spec, self._name = parts, spec, name
        reranker = load_reranker(spec.directories) if needs_reranker(name) else None
        self._retriever: Retriever = get_retriever(name, reranker)
        self._corpus: SearchSpace | None = None
        if spec.scope == "corpus":
            passages = parts.read_all("passages", numbers, Passage)
            searches = {name: _vector_search(parts, name, numbers) for name in self._retriever.encoders}
            self._corpus = Collection([passage_search_text(row) for row in passages], searches=searches), passages

    def rank(self, part: int) -> int:
        """Write rankings and their scores; returns the number of questions."""
        equal = read_equivalences(self._parts, part)
        rows: list[Ranking] = []
        scores: list[RetrievalScore] = []
        elsewhere: dict[tuple[str, int], Passage] = {}
        vectors = {name: read_vectors(self._parts, name, part) for name in self._retriever.encoders}
        for label, own in _by_label(read_items(self._parts, part), vectors):
            if not (label.subject.whole and label.questions):
                continue
            rankings = self._rank_label(label, own, elsewhere)
            passages = {passage.doc_chunk_index: passage for passage in label.passages}
            for question, ranking in zip(label.questions, rankings, strict=True):
                features = question_features(question, label.subject, passages)
                score = score_ranking(features, question, ranking, equal.get(question.id))
                if score is not None:
                    scores.append(score)
            rows += rankings
        self._parts.write(f"rankings/{self._name}", part, rows, Ranking)
        if self._corpus:
            self._parts.write(f"elsewhere/{self._name}", part, elsewhere.values(), Passage)
        self._parts.write(f"retrieval_scores/{self._name}", part, scores, RetrievalScore)
        self._parts.mark_complete(f"ranked/{self._name}", part)
        return len(rows)

    def _rank_label(
        self, label: BenchmarkItem, vectors: Mapping[str, PartVectors], elsewhere: dict[tuple[str, int], Passage]
    ) -> list[Ranking]:
        """Rank passages for the questions of a label, and note those of other labels that come first."""
        if self._corpus:
            collection, passages = self._corpus
        else:
            texts = [passage_search_text(passage) for passage in label.passages]
            collection = Collection(texts, {name: of_passages for name, (of_passages, _) in vectors.items()})
            passages = label.passages
        by_encoder = {name: of_questions for name, (_, of_questions) in vectors.items()}
        queries = Queries([question.question for question in label.questions], by_encoder)
        most = max(len(question.gold_passages) for question in label.questions)
        ranked = self._retriever.rank(queries, collection, max(_LEAST_RANKED, self._spec.top_k, most))
        rows = []
        for question, hits in zip(label.questions, ranked, strict=True):
            found = [passages[place] for place, _ in hits]
            indices, scores = [passage.doc_chunk_index for passage in found], [float(score) for _, score in hits]
            set_ids = [passage.set_id for passage in found] if self._corpus else []
            rows.append(Ranking(question.id, question.set_id, self._name, indices, set_ids, scores))
            for passage in found[: self._spec.top_k] if self._corpus else ():
                if passage.set_id != label.subject.set_id:
                    elsewhere[passage.set_id, passage.doc_chunk_index] = passage
        return rows


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


class BertScorer:
    """Holds one BERTScore model."""

    def __init__(self, parts: PartFiles, directory: str, layers: int | None) -> None:
        self._parts = parts
        self._scorer = AnswerSimilarity(directory, layers)

    def score(self, place: tuple[str, int]) -> int:
        """Score a model's answers in a part against the gold answers; returns their number."""
        model, part = place
        questions = self._parts.read("questions", part, QuestionAnswer)
        answers = {row.id: row.answer for row in questions if row.answerable}
        scored = [
            row
            for row in self._parts.read(f"predictions/{model}", part, Prediction)
            if row.question_id in answers and row.outcome in ("answered", "refused")
        ]
        scores = self._scorer.values([row.answer for row in scored], [answers[row.question_id] for row in scored])
        table = pa.table({"prediction_id": [row.id for row in scored], "bert_score": pa.array(scores, pa.float64())})
        write_table(self._parts.run.part(f"bert_scores/{model}", part), table)
        self._parts.mark_complete(f"bert_scores/{model}", part)
        return len(scored)


def with_bert_scores(places: Iterable[Location], scores: pa.Table) -> pa.Table:
    """Return a Score table with its bert_score column filled in from the parts of `BertScorer` at these places."""
    found: dict[str, float] = {}
    for place in places:
        table = read_table(place, ["prediction_id", "bert_score"])
        found.update(zip(table["prediction_id"].to_pylist(), table["bert_score"].to_pylist(), strict=True))
    column = pa.array([found.get(id) for id in scores["prediction_id"].to_pylist()], pa.float64())
    return scores.set_column(scores.schema.get_field_index("bert_score"), "bert_score", column)
