"""Reading a build part by part, seeded samples of its rows, and the places in gold passages that state the answer."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Generic, Literal, TypeVar

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
from fdarx_core.storage import RunDirectory, read_table
from fdarx_core.text.sentences import split_sentences

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


Example = tuple[QuestionAnswer, list[tuple[Passage, list[tuple[str, str]]]]]
"""A benchmark question with its gold passages, each with its text in pieces, and these with the kind of their mark."""
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
    is_gold = pc.field("doc_chunk_index").isin(pa.array(question.gold_passages, pa.int64()))
    mine = part["passages"].filter((pc.field("set_id") == question.set_id) & is_gold)
    found = {passage.doc_chunk_index: passage for passage in from_table(mine, Passage)}
    gold = [found[index] for index in question.gold_passages if index in found]
    verdicts = part["verdicts"].filter(pc.field("question_id") == question.id)
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
    found = part["candidates"].filter(pc.field("id") == reject.id).slice(0, 1).to_pylist()
    candidate = found[0] if found else {"question": "", "answer": ""}
    return reject, candidate["question"], candidate["answer"]


MarkKind = Literal["sentence", "words", "quoted"]
Mark = tuple[int, int, MarkKind]
"""Start and end of a place in characters, and its kind.

`sentence`: a whole sentence of the answer; `words`: words that a sentence of the answer shares with the passage, where
the passage does not have that sentence; `quoted`: what the judge quoted as evidence, apart from the other two.
"""

Place = tuple[int, int]
"""Start and end in characters."""

SHARED_WORDS = 4
"""The least number of words in a row that are marked where the passage does not have the whole sentence."""
_WORD = re.compile(r"\w+")
_ENDS = ".!?"


class MarkedText:
    """A text in which sentences are looked up without regard to white space, upper case and the final stop.

    It is prepared once and serves all questions that have it as a gold passage.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = [at for at, character in enumerate(text) if not character.isspace()]
        self._dense = _dense(text)

    @cached_property
    def _words(self) -> list[tuple[str, int, int]]:
        return [(found[0].lower(), found.start(), found.end()) for found in _WORD.finditer(self.text)]

    def find(self, sentence: str) -> list[Place]:
        """Return the places that have the sentence as whole words."""
        sought, text, places = _dense(sentence.strip().rstrip(_ENDS)), self.text, list[Place]()
        found = self._dense.find(sought) if sought else -1
        while found >= 0:
            start, end = self._at[found], self._at[found + len(sought) - 1] + 1
            # neither a word nor a number goes on before or after the place
            before = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
            after = end < len(text) and text[end].isalnum() and text[end - 1].isalnum()
            longer = text[end - 1].isdigit() and bool(re.match(r"[.,]\d", text[end : end + 2]))
            if not (before or after or longer):
                places.append((start, end))
            found = self._dense.find(sought, found + len(sought))
        return places

    def shared(self, sentence: str) -> list[Place]:
        """Return the places of `SHARED_WORDS` or more words in a row that the sentence has too."""
        words = _WORD.findall(sentence.lower())
        runs = {tuple(words[at : at + SHARED_WORDS]) for at in range(len(words) - SHARED_WORDS + 1)}
        if not runs:
            return []
        own = self._words
        names = [name for name, _, _ in own]
        last = len(own) - SHARED_WORDS + 1
        firsts = [at for at in range(last) if tuple(names[at : at + SHARED_WORDS]) in runs]
        return join_places((own[at][1], own[at + SHARED_WORDS - 1][2]) for at in firsts)

    def pieces(self, marks: Sequence[Mark]) -> list[tuple[str, str]]:
        """Return the whole text in pieces, each with the kind of its mark or ""."""
        pieces: list[tuple[str, str]] = []
        at = 0
        for start, end, kind in marks:
            pieces += [(self.text[at:start], ""), (self.text[start:end], kind)]
            at = end
        return [(text, kind) for text, kind in (*pieces, (self.text[at:], "")) if text]


def mark_passages(answer: str, quotations: Sequence[str], passages: Sequence[MarkedText]) -> list[list[Mark]]:
    """Return for each gold passage the marks of the answer and of the judge's quotations, in order, without overlap.

    The words of a sentence are marked only if no passage has the whole sentence.
    """
    split = split_sentences(answer)
    found = [[passage.find(sentence) for passage in passages] for sentence in split]
    missing = [sentence for sentence, places in zip(split, found, strict=True) if not any(places)]
    marked: list[list[Mark]] = []
    for at, passage in enumerate(passages):
        by_kind: dict[MarkKind, list[Place]] = {
            "sentence": [place for places in found for place in places[at]],
            "words": [place for sentence in missing for place in passage.shared(sentence)],
            "quoted": [place for quotation in quotations for place in passage.find(quotation)],
        }
        marks: list[Mark] = []
        for kind, places in by_kind.items():
            free = _without(join_places(sorted(places)), [(start, end) for start, end, _ in marks])
            kept = [(start, end, kind) for start, end in free if passage.text[start:end].strip()]
            marks = sorted([*marks, *kept])
        marked.append(marks)
    return marked


def _dense(text: str) -> str:
    """Return the text without white space, in lower case if that keeps its length."""
    dense = "".join(text.split())
    lower = dense.lower()
    return lower if len(lower) == len(dense) else dense


def join_places(places: Iterable[Place]) -> list[Place]:
    """Return places that are in order, with those that overlap as one."""
    joined: list[Place] = []
    for start, end in places:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _without(places: Sequence[Place], taken: Sequence[Place]) -> Iterator[Place]:
    """Yield the parts of the places that no taken place covers; both are in order."""
    for start, end in places:
        for low, high in taken:
            if low < end and start < high:
                if start < low:
                    yield start, low
                start = max(start, high)
        if start < end:
            yield start, end
