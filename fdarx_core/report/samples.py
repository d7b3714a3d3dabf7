"""Reading a build part by part, and seeded samples of its rows."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable, Iterator
from operator import itemgetter
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.records import (
    JudgeVerdict,
    Label,
    Passage,
    QuestionAnswer,
    Reject,
    arrow_schema,
    content_id,
    from_table,
)
from fdarx_core.report.marks import MarkedText, mark_passages
from fdarx_core.storage import RunDirectory, read_table

Item = TypeVar("Item")


class SeededSample(Generic[Item]):
    """A sample of each group: the `size` rows with the smallest hash of seed and id."""

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, str(seed)
        self._best: dict[Hashable, list[tuple[str, Item]]] = {}

    def offer(self, group: Hashable, row_id: str, make: Callable[[], Item]) -> None:
        """Consider a row; `make` is called only if it is picked. An id that is offered twice counts once."""
        rank = content_id(self._seed, row_id)
        best = self._best.setdefault(group, [])
        full = len(best) == self._size
        if (full and rank >= best[-1][0]) or any(rank == known for known, _ in best):
            return
        insort(best, (rank, make()), key=itemgetter(0))
        del best[self._size :]

    def of(self, group: Hashable) -> list[Item]:
        """Return the sample of a group in the order of the hash."""
        return [item for _, item in self._best.get(group, [])]


def _columns(record: type, *names: str) -> pa.Schema:
    return pa.schema([arrow_schema(record).field(name) for name in names])


_COLUMNS: dict[str, pa.Schema] = {
    "labels": _columns(Label, "set_id", "drug_name", "products"),
    "passages": arrow_schema(Passage),
    "candidates": _columns(QuestionAnswer, "id", "type", "question", "answer"),
    "questions": arrow_schema(QuestionAnswer),
    "verdicts": _columns(JudgeVerdict, "question_id", "stage", "evidence"),
    "rejects": arrow_schema(Reject),
}


RunPart = dict[str, pa.Table]
"""The rows of one group of labels by kind (labels, passages, …); a kind without rows is an empty table."""


def read_parts(run: RunDirectory) -> Iterator[RunPart]:
    """Yield the parts of a run in the order of their names, with the columns that a report needs."""
    found = {kind: {location.name: location for location in run.parts(kind)} for kind in _COLUMNS}
    for name in sorted({name for names in found.values() for name in names}):
        yield {
            kind: read_table(found[kind][name], schema.names) if name in found[kind] else schema.empty_table()
            for kind, schema in _COLUMNS.items()
        }


GoldPassage = tuple[Passage, list[tuple[str, str]]]
"""A gold passage, and its text in pieces, each with the kind of its mark or ""."""
Example = tuple[QuestionAnswer, list[GoldPassage]]
"""A benchmark question with its gold passages."""
DroppedExample = tuple[Reject, str, str]
"""A rejected row with question and answer of the candidate, "" where the row was no question yet."""


def offer_rows(part: RunPart, questions: SeededSample[Example], rejects: SeededSample[DroppedExample]) -> None:
    """Offer the questions of one part by type, and its rejects by (stage, reason)."""
    table = part["questions"]
    for row, (row_id, group) in enumerate(zip(table["id"].to_pylist(), table["type"].to_pylist(), strict=True)):
        questions.offer(group, row_id, lambda row=row: _example(part, row))  # type: ignore[misc]
    columns = (part["rejects"][name].to_pylist() for name in ("id", "stage", "reason"))
    for row, (row_id, *place) in enumerate(zip(*columns, strict=True)):
        rejects.offer(tuple(place), row_id, lambda row=row: _dropped(part, row))  # type: ignore[misc]


def _example(part: RunPart, row: int) -> Example:
    question = next(from_table(part["questions"].slice(row, 1), QuestionAnswer))
    mine = part["passages"].filter(
        pc.and_(
            pc.equal(part["passages"]["set_id"], question.set_id),
            pc.is_in(part["passages"]["doc_chunk_index"], pa.array(question.gold_passages, pa.int64())),
        )
    )
    found = {passage.doc_chunk_index: passage for passage in from_table(mine, Passage)}
    gold = [found[index] for index in question.gold_passages if index in found]
    verdicts = part["verdicts"].filter(pc.equal(part["verdicts"]["question_id"], question.id))
    texts = [MarkedText(passage.text) for passage in gold]
    marked = mark_passages(question.answer, quotations_of(verdicts).get(question.id, []), texts)
    return question, [
        (passage, text.pieces(marks)) for passage, text, marks in zip(gold, texts, marked, strict=True)
    ]  # fmt: skip


def quotations_of(verdicts: pa.Table) -> dict[str, list[str]]:
    """Return by question what its judges of support quoted as evidence."""
    columns = (verdicts[name].to_pylist() for name in ("question_id", "stage", "evidence"))
    rows = zip(*columns, strict=True)
    return {question: evidence for question, stage, evidence in rows if stage == "support" and evidence}


def _dropped(part: RunPart, row: int) -> DroppedExample:
    reject = next(from_table(part["rejects"].slice(row, 1), Reject))
    found = part["candidates"].filter(pc.equal(part["candidates"]["id"], reject.id)).slice(0, 1).to_pylist()
    candidate = found[0] if found else {"question": "", "answer": ""}
    return reject, candidate["question"], candidate["answer"]
