"""Published rows one by one: questions with what they rest on, labels with their pieces, or why they can't be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fdarx_core.records import Passage, QuestionAnswer, content_id
from fdarx_core.storage.benchmark.card import CONFIGS
from fdarx_core.storage.benchmark.chunks import Chunk, Places, text_of
from fdarx_core.storage.benchmark.published import NOT_JUDGED


class Unreadable(Exception):
    """A row that can't be read: a fixed name to count by, and what a reader needs to find the fault."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class Asked:
    """A question without its gold passages, what it was made from, and where it stands (file:line)."""

    question: QuestionAnswer
    context: list[Chunk]
    place: str

    def gold(self, places: Places) -> list[tuple[int, Chunk]]:
        """The passages that it rests on, each once. `Unreadable` where the label has no such passage."""
        found: dict[int, Chunk] = {}
        for chunk in self.context:
            index = places.find(chunk)
            if index is None:
                raise Unreadable("context_not_in_label", _lost(chunk))
            known = found.get(index, chunk)
            found[index] = replace(known, has_answer=known.has_answer or chunk.has_answer)
        return list(found.items())

    def settled(self, gold: list[tuple[int, Chunk]], passages: dict[int, Passage], drug_name: str) -> QuestionAnswer:
        """The question with its gold passages, and the label's drug name where it has none."""
        return replace(
            self.question,
            drug_name=self.question.drug_name or drug_name,
            gold_passages=[index for index, _ in gold],
            gold_codes=[passages[index].section_code for index, _ in gold],
            gold_has_answer=[chunk.has_answer for _, chunk in gold],
        )


@dataclass(frozen=True, slots=True)
class LabelText:
    """A row of `labels.jsonl`. `bare`: its pieces are mere texts, without the sections that they stand in."""

    set_id: str
    drug_name: str
    chunks: list[Chunk]
    bare: bool


def read_question(row: dict[str, Any], place: str) -> Asked:
    """A row of `qa.jsonl`. A refusal question rests on nothing, whatever its context holds. Raises `Unreadable`."""
    set_id, question, answer = (_needed(row, key) for key in ("set_id", "question", "answer"))
    kind = (text_of(row.get("task")) or text_of(row.get("question_type"))).strip().lower()
    if kind not in CONFIGS:
        raise Unreadable("unknown_task", f"task is {row.get('task')!r:.80}, not one of {', '.join(CONFIGS)}")
    context = [] if kind == "refusal" else _context(row.get("context"))
    return Asked(
        QuestionAnswer(
            id=text_of(row.get("qid")).strip() or content_id(set_id.strip(), question),
            type=kind,
            answer_kind=text_of(row.get("question_type")).strip() or kind,
            source=text_of(row.get("source")),
            category=_judged(row.get("qfilter_category")),
            set_id=set_id.strip(),
            drug_name=text_of(row.get("drug_name")).strip(),
            question=question,
            answer=answer,
            relevance=_judged(row.get("qfilter_relevance")),
        ),
        context,
        place,
    )


def read_label(row: dict[str, Any]) -> LabelText:
    """A row of `labels.jsonl`, its `chunks` objects or mere texts. Raises `Unreadable`."""
    set_id, chunks = _needed(row, "set_id").strip(), row.get("chunks")
    if not isinstance(chunks, list):
        raise Unreadable("missing_key", "the label has no list of chunks")
    read = [Chunk.read(value, at) for at, value in enumerate(chunks)]
    kept = [chunk for chunk in read if chunk is not None]
    if len(kept) < len(read):
        raise Unreadable("bad_chunk", f"chunk {read.index(None)} is neither a text nor an object")
    bare = all(isinstance(value, str) for value in chunks)
    return LabelText(set_id, text_of(row.get("drug_name")).strip(), kept, bare)


def _needed(row: dict[str, Any], key: str) -> str:
    value = text_of(row.get(key))
    if not value.strip():
        raise Unreadable("missing_key", f"{key} is absent, empty or no text")
    return value


def _context(value: Any) -> list[Chunk]:
    if not isinstance(value, list) or not value:
        raise Unreadable("no_context", "an answerable question needs a context: the list of passages that it rests on")
    read = [Chunk.read(one) for one in value]
    kept = [chunk for chunk in read if chunk is not None and (chunk.folded or chunk.index is not None)]
    if len(kept) < len(read):
        raise Unreadable("bad_context", "an entry of the context has neither text nor doc_chunk_index")
    return kept


def _judged(value: Any) -> str:
    said = text_of(value).strip()
    return "" if said == NOT_JUDGED else said


def _lost(chunk: Chunk) -> str:
    where = "without doc_chunk_index" if chunk.index is None else f"doc_chunk_index {chunk.index}"
    return f"{where}, text {chunk.folded[:80]!r}"
