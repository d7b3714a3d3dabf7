"""FDARxBench's published format, `qa.jsonl` and `labels.jsonl`: rows to write, and rows as they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from fdarx_core.records import Label, Passage, QuestionAnswer, Section, content_id
from fdarx_core.storage.run_directory import LabelRows

NOT_JUDGED = "NA"
_HIGHLIGHTS = "highlights"
_OTHER_SOURCES = "section_selfinst"
_UNTITLED = "untitled"


def question_row(question: QuestionAnswer, rows: LabelRows) -> dict[str, Any]:
    """A line of `qa.jsonl`.

    `references` are the gold passages' section titles, for Highlights the one heading they stand under; `citations`
    the sections' numbers, without which a factual question has "" and a multi-hop one null.
    """
    gold, summary = rows.gold(question), question.source == _HIGHLIGHTS
    return {
        "task": question.type,
        "source": _HIGHLIGHTS if summary else _OTHER_SOURCES,
        "set_id": question.set_id,
        "question": question.question,
        "answer": question.answer,
        "references": _heading(gold, rows.label) if summary else [printed_title(passage) for passage in gold],
        "citations": _distinct_numbers(gold) if summary else [_number(passage, question.type) for passage in gold],
        "drug_name": question.drug_name,
        "question_type": question.answer_kind,
        "context": _highlight_context(question, gold) if summary else _section_context(question, gold),
        "qid": question.id,
        "qfilter_category": question.category or NOT_JUDGED,
        "qfilter_relevance": question.relevance or NOT_JUDGED,
    }


def label_row(rows: LabelRows) -> dict[str, Any]:
    """A line of `labels.jsonl`; `label_raw` has `||PASSAGE_0012||` before each passage, and sections' titles."""
    passages = list(rows.passages.values())
    return {
        "set_id": rows.label.set_id,
        "drug_name": rows.label.drug_name,
        "label_raw": "\n".join(_marked_lines(rows.label, passages)),
        "chunks": [
            {
                "doc_chunk_index": passage.doc_chunk_index,
                "section_label": passage.section_number or None,
                "section_title": printed_title(passage),
                "section_code": passage.section_code,
                "section_chunk_index": passage.section_chunk_index,
                "text": passage.text,
            }
            for passage in passages
        ],
    }


def printed_title(passage: Passage) -> str:
    """Number and title as the label prints them."""
    return f"{passage.section_number} {passage.section_title}".strip() or _UNTITLED


def unprinted_title(printed: str, number: str) -> str:
    """The title alone, out of number and title as `printed_title` and the published rows give them."""
    title = printed.strip()
    if not number:
        return "" if title == _UNTITLED else title
    rest = title.removeprefix(number)
    return rest.strip() if rest != title and (not rest or rest[0].isspace()) else title


def _highlight_context(question: QuestionAnswer, gold: Sequence[Passage]) -> list[dict[str, Any]]:
    return [
        {
            "doc_id": None,
            "section_title": printed_title(passage),
            "text": passage.text,
            "doc_chunk_index": passage.doc_chunk_index,
            "section_label": passage.section_number or None,
            "section_code": passage.section_code,
            "section_chunk_index": passage.section_chunk_index,
            "has_answer": has_answer,
        }
        for passage, has_answer in zip(gold, question.gold_has_answer, strict=True)
    ]


def _section_context(question: QuestionAnswer, gold: Sequence[Passage]) -> list[dict[str, Any]]:
    return [
        {
            "doc_id": _doc_id(question, passage),
            "section_label": passage.section_number or None,
            "section_title": printed_title(passage),
            "text": passage.text,
            "doc_chunk_index": passage.doc_chunk_index,
            "section_code": passage.section_code,
            "section_chunk_index": passage.section_chunk_index,
        }
        for passage in gold
    ]


def _doc_id(question: QuestionAnswer, passage: Passage) -> str:
    """Sections without a number share one place in the id, so there the passage is counted through the label."""
    place = passage.section_chunk_index if passage.section_number else passage.doc_chunk_index
    drug = question.drug_name.lower().replace(" ", "_")
    return f"{drug}:{_number(passage, question.type)}:{place}"


def _number(passage: Passage, question_type: str) -> str | None:
    return passage.section_number or (None if question_type == "multihop" else "")


def _distinct_numbers(gold: Sequence[Passage]) -> list[str]:
    return list(dict.fromkeys(passage.section_number for passage in gold if passage.section_number))


def _heading(gold: Sequence[Passage], label: Label) -> str:
    """The top section that the first gold passage stands in."""
    if not gold:
        return ""
    path = f"{gold[0].section_path} > "
    above = (one for one in label.sections if one.depth == 0 and one.path and path.startswith(f"{one.path} > "))
    top = next(above, None)
    return f"{top.number} {top.title}".strip() if top else printed_title(gold[0])


def _marked_lines(label: Label, passages: Sequence[Passage]) -> Iterator[str]:
    outline = iter(label.sections)
    for passage in passages:
        if passage.section_chunk_index == 0:
            # Headings without text of their own stand in the outline only; they come before the next that has some.
            for section in outline:
                if title := f"{section.number} {section.title}".strip():
                    yield title
                if _place(section) == (passage.section_code, passage.section_number, passage.section_path):
                    break
        yield f"||{passage.marker}||"
        yield passage.text


def _place(section: Section) -> tuple[str, str, str]:
    return section.code, section.number, section.path


QUESTION_TYPES = ("factual", "multihop", "refusal")


_MOST = 10**7  # an index above it is no place in a label, and might not fit a column
_WORD = re.compile(r"\w+")
_ALIKE = 0.5
_UNCLASSIFIED = ("", "42229-5")
_PLR_CODES = (
    "34067-9", "34068-7", "43678-2", "34070-3", "43685-7", "34084-4", "34073-7", "43684-0", "42227-9", "34088-5",
    "34089-3", "34090-1", "43680-8", "34092-7", "34093-5", "34069-5", "34076-0",
)  # fmt: skip
"""Of the sections 1 to 17, which labels in the current format all have in this order. Source: 21 CFR 201.57(c)."""


@dataclass(frozen=True, slots=True)
class PublishedChunk:
    """A piece of a label. `index` is its doc_chunk_index, None where none is given; `text` may be empty."""

    text: str
    index: int | None
    within: int = 0
    code: str = ""
    number: str = ""
    title: str = ""
    has_answer: bool = True

    @property
    def folded(self) -> str:
        """Its text, white space apart."""
        return " ".join(self.text.split())

    @classmethod
    def read(cls, value: Any, position: int | None = None) -> PublishedChunk | None:
        """An object of a context or of `chunks`, or a mere text, whose index is its position. None: neither."""
        if isinstance(value, str):
            return cls(value, position)
        if not isinstance(value, dict):
            return None
        number = text_of(value.get("section_label"))
        return cls(
            text=text_of(value.get("text")),
            index=_index(value.get("doc_chunk_index")),
            within=_index(value.get("section_chunk_index")) or 0,
            code=text_of(value.get("section_code")),
            number=number,
            title=unprinted_title(text_of(value.get("section_title")), number),
            has_answer=value.get("has_answer") is not False,
        )


def text_of(value: Any) -> str:
    """Numbers as their digits; what is neither text nor number as ""."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def passages_of(set_id: str, chunks: Iterable[PublishedChunk]) -> dict[int, Passage]:
    """Passages by doc_chunk_index.

    The same text under the same index, however often, is one passage. A differing text under an index that is taken,
    or a text without index, is the passage that has this text, else a new one under an index above all that are given.
    """
    with_text = [chunk for chunk in chunks if chunk.folded]
    fresh = count(max((chunk.index for chunk in with_text if chunk.index is not None), default=-1) + 1)
    taken: dict[int, str] = {}
    by_text: dict[str, int] = {}
    passages: dict[int, Passage] = {}
    # Those that state their place come first: a text without one may be any of theirs.
    for chunk in sorted(with_text, key=lambda chunk: chunk.index is None):
        folded, index = chunk.folded, chunk.index
        if index is None or taken.get(index, folded) != folded:
            known = by_text.get(folded)
            index = next(fresh) if known is None else known
        by_text.setdefault(folded, index)
        if taken.setdefault(index, folded) == folded and index not in passages:
            passages[index] = _passage(set_id, index, chunk)
    return dict(sorted(passages.items()))


class PassageLookup:
    """Finds the passage that a question's context means."""

    def __init__(self, passages: Mapping[int, Passage]) -> None:
        self._folded = {index: " ".join(passage.text.split()) for index, passage in passages.items()}
        self._by_text = {text: index for index, text in reversed(self._folded.items())}

    def find(self, chunk: PublishedChunk) -> int | None:
        """The passage under the chunk's index, where their texts agree or the chunk has none, else that of its text.

        Texts agree where one holds the other, or half of the words are common: labels may have been cut otherwise.
        """
        stated = self._folded.get(chunk.index) if chunk.index is not None else None
        if stated is not None and chunk.folded in ("", stated):
            return chunk.index
        found = self._by_text.get(chunk.folded)
        if found is None and stated is not None and _alike(stated, chunk.folded):
            return chunk.index
        return found


def with_sections(passages: Mapping[int, Passage], named: Iterable[tuple[int, PublishedChunk]]) -> dict[int, Passage]:
    """Passages of a label that holds mere texts, with the sections that the questions' contexts name for them."""
    out = dict(passages)
    for index, chunk in named:
        if not (out[index].section_code or out[index].section_title):
            out[index] = replace(_passage(out[index].set_id, index, chunk), text=out[index].text)
    return out


def _passage(set_id: str, index: int, chunk: PublishedChunk) -> Passage:
    return Passage(
        set_id=set_id,
        doc_chunk_index=index,
        section_chunk_index=chunk.within,
        section_code=chunk.code,
        core_code=_core_code(chunk),
        section_number=chunk.number,
        section_title=chunk.title,
        section_path=chunk.title,
        text=chunk.text,
    )


def _core_code(chunk: PublishedChunk) -> str:
    """That of the section, or, of an unclassified one, of the top section that its number tells (right in 99 %)."""
    top = chunk.number.partition(".")[0]
    if chunk.code in _UNCLASSIFIED and re.fullmatch("[1-9][0-9]?", top) and int(top) <= len(_PLR_CODES):
        return _PLR_CODES[int(top) - 1]
    return chunk.code


def _index(value: Any) -> int | None:
    """A whole number, also where it was written as text or with a fraction of zero."""
    if isinstance(value, str):
        value = int(value) if value.strip().isascii() and value.strip().isdigit() and len(value) < 12 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        return None
    return int(value) if value == int(value) else None


def _alike(one: str, other: str) -> bool:
    if one in other or other in one:
        return True
    first, second = set(_WORD.findall(one.lower())), set(_WORD.findall(other.lower()))
    return len(first & second) >= _ALIKE * len(first | second)


class RowError(Exception):
    """A row that can't be read: a fixed name to count by, and what a reader needs to find the fault."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class PublishedQuestion:
    """A question without its gold passages, what it was made from, and where it stands (file:line)."""

    question: QuestionAnswer
    context: list[PublishedChunk]
    place: str

    def gold(self, places: PassageLookup) -> list[tuple[int, PublishedChunk]]:
        """The passages that it rests on, each once. `RowError` where the label has no such passage."""
        found: dict[int, PublishedChunk] = {}
        for chunk in self.context:
            index = places.find(chunk)
            if index is None:
                raise RowError("context_not_in_label", _lost(chunk))
            known = found.get(index, chunk)
            found[index] = replace(known, has_answer=known.has_answer or chunk.has_answer)
        return list(found.items())

    def settled(
        self, gold: list[tuple[int, PublishedChunk]], passages: dict[int, Passage], drug_name: str
    ) -> QuestionAnswer:
        """The question with its gold passages, and the label's drug name where it has none."""
        return replace(
            self.question,
            drug_name=self.question.drug_name or drug_name,
            gold_passages=[index for index, _ in gold],
            gold_codes=[passages[index].section_code for index, _ in gold],
            gold_has_answer=[chunk.has_answer for _, chunk in gold],
        )


@dataclass(frozen=True, slots=True)
class PublishedLabel:
    """A row of `labels.jsonl`. `bare`: its pieces are mere texts, without the sections that they stand in."""

    set_id: str
    drug_name: str
    chunks: list[PublishedChunk]
    bare: bool


def read_question(row: dict[str, Any], place: str) -> PublishedQuestion:
    """A row of `qa.jsonl`. A refusal question rests on nothing, whatever its context holds. Raises `RowError`."""
    set_id, question, answer = (_needed(row, key) for key in ("set_id", "question", "answer"))
    kind = (text_of(row.get("task")) or text_of(row.get("question_type"))).strip().lower()
    if kind not in QUESTION_TYPES:
        raise RowError("unknown_task", f"task is {row.get('task')!r:.80}, not one of {', '.join(QUESTION_TYPES)}")
    context = [] if kind == "refusal" else _context(row.get("context"))
    return PublishedQuestion(
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


def read_label(row: dict[str, Any]) -> PublishedLabel:
    """A row of `labels.jsonl`, its `chunks` objects or mere texts. Raises `RowError`."""
    set_id, chunks = _needed(row, "set_id").strip(), row.get("chunks")
    if not isinstance(chunks, list):
        raise RowError("missing_key", "the label has no list of chunks")
    read = [PublishedChunk.read(value, at) for at, value in enumerate(chunks)]
    kept = [chunk for chunk in read if chunk is not None]
    if len(kept) < len(read):
        raise RowError("bad_chunk", f"chunk {read.index(None)} is neither a text nor an object")
    bare = all(isinstance(value, str) for value in chunks)
    return PublishedLabel(set_id, text_of(row.get("drug_name")).strip(), kept, bare)


def _needed(row: dict[str, Any], key: str) -> str:
    value = text_of(row.get(key))
    if not value.strip():
        raise RowError("missing_key", f"{key} is absent, empty or no text")
    return value


def _context(value: Any) -> list[PublishedChunk]:
    if not isinstance(value, list) or not value:
        raise RowError("no_context", "an answerable question needs a context: the list of passages that it rests on")
    read = [PublishedChunk.read(one) for one in value]
    kept = [chunk for chunk in read if chunk is not None and (chunk.folded or chunk.index is not None)]
    if len(kept) < len(read):
        raise RowError("bad_context", "an entry of the context has neither text nor doc_chunk_index")
    return kept


def _judged(value: Any) -> str:
    said = text_of(value).strip()
    return "" if said == NOT_JUDGED else said


def _lost(chunk: PublishedChunk) -> str:
    where = "without doc_chunk_index" if chunk.index is None else f"doc_chunk_index {chunk.index}"
    return f"{where}, text {chunk.folded[:80]!r}"
