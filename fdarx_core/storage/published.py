"""FDARxBench's published format, `qa.jsonl` and `labels.jsonl`: rows are written and read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from fdarx_core.records import Label, Passage, QuestionAnswer, content_id
from fdarx_core.records.question_types import QUESTION_TYPES
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.run_directory import LabelRows
from fdarx_core.storage.splits import DEV, TEST

NOT_JUDGED = "NA"
_HIGHLIGHTS = "highlights"
_OTHER_SOURCES = "section_selfinst"
_UNTITLED = "untitled"
_MAX_INDEX = 10**7
"""A larger index is no position in a label, and might not fit a column."""
_WORD = re.compile(r"\w+")
_MIN_OVERLAP = 0.5
_UNCLASSIFIED = ("", "42229-5")
_PLR_CODES = (
    "34067-9", "34068-7", "43678-2", "34070-3", "43685-7", "34084-4", "34073-7", "43684-0", "42227-9", "34088-5",
    "34089-3", "34090-1", "43680-8", "34092-7", "34093-5", "34069-5", "34076-0",
)  # fmt: skip
"""The codes of sections 1 to 17, whose order the current format fixes. Source: 21 CFR 201.57(c)."""


def lines_file(kind: str, split: str) -> str:
    """Return the name of the file of a split: `qa.jsonl` and `labels.jsonl` for test, `qa_dev.jsonl` … for dev."""
    return f"{kind}.jsonl" if split == TEST else f"{kind}_{split}.jsonl"


def split_of_file(name: str) -> str:
    """Return the split whose rows a file has, by its name; `test` for any name that does not end in `_dev.jsonl`."""
    return DEV if name.endswith(f"_{DEV}.jsonl") else TEST


def question_row(question: QuestionAnswer, rows: LabelRows) -> dict[str, Any]:
    """Return a line of `qa.jsonl`.

    `references` are the titles of the gold passages' sections; for a question from Highlights, the one heading that
    they are under. `citations` are the numbers of the sections; for a section without number, "" in a factual question
    and null in a multi-hop one.
    """
    gold, summary = rows.gold(question), question.source == _HIGHLIGHTS
    missing = None if QUESTION_TYPES[question.type].passages > 1 else ""
    numbers = [passage.section_number or missing for passage in gold]
    return {
        "task": question.type,
        "source": _HIGHLIGHTS if summary else _OTHER_SOURCES,
        "set_id": question.set_id,
        "question": question.question,
        "answer": question.answer,
        "references": _heading(gold, rows.label) if summary else [printed_title(passage) for passage in gold],
        "citations": list(dict.fromkeys(filter(None, numbers))) if summary else numbers,
        "drug_name": question.drug_name,
        "question_type": question.answer_kind,
        "context": [
            _context_row(question, passage, number, question.gold_has_answer[position] if summary else None)
            for position, (passage, number) in enumerate(zip(gold, numbers, strict=True))
        ],
        "qid": question.id,
        "qfilter_category": question.category or NOT_JUDGED,
        "qfilter_relevance": question.relevance or NOT_JUDGED,
    }


def label_row(rows: LabelRows) -> dict[str, Any]:
    """Return a line of `labels.jsonl`. `label_raw` is the text with titles, and `||PASSAGE_0012||` before passages."""
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
    """Return the number and title of the passage's section, as the label prints them."""
    return f"{passage.section_number} {passage.section_title}".strip() or _UNTITLED


def unprinted_title(printed: str, number: str) -> str:
    """Return the title without the number that `printed_title` and the published rows put before it."""
    title = printed.strip()
    if not number:
        return "" if title == _UNTITLED else title
    rest = title.removeprefix(number)
    return rest.strip() if rest != title and (not rest or rest[0].isspace()) else title


def _context_row(
    question: QuestionAnswer, passage: Passage, number: str | None, has_answer: bool | None
) -> dict[str, Any]:
    """Return an entry of the context. `has_answer` is None unless the question is from Highlights."""
    title = printed_title(passage)
    label: dict[str, Any] = {"section_label": passage.section_number or None}
    place = {"text": passage.text, "doc_chunk_index": passage.doc_chunk_index}
    section = {"section_code": passage.section_code, "section_chunk_index": passage.section_chunk_index}
    if has_answer is not None:
        return {"doc_id": None, "section_title": title, **place, **label, **section, "has_answer": has_answer}
    # Sections without number have the same id, so their passages are counted through the whole label.
    position = passage.section_chunk_index if passage.section_number else passage.doc_chunk_index
    drug = question.drug_name.lower().replace(" ", "_")
    doc_id = f"{drug}:{number}:{position}"
    return {"doc_id": doc_id, **label, "section_title": title, **place, **section}


def _heading(gold: Sequence[Passage], label: Label) -> str:
    """Return the top-level section of the first gold passage."""
    if not gold:
        return ""
    path = f"{gold[0].section_path} > "
    top = next(
        (part for part in label.sections if part.depth == 0 and part.path and path.startswith(f"{part.path} > ")), None
    )
    return f"{top.number} {top.title}".strip() if top else printed_title(gold[0])


def _marked_lines(label: Label, passages: Sequence[Passage]) -> Iterator[str]:
    outline = iter(label.sections)
    for passage in passages:
        if passage.section_chunk_index == 0:
            # Headings of sections without text are in the outline only; they come before the next section with text.
            for section in outline:
                if title := f"{section.number} {section.title}".strip():
                    yield title
                key = passage.section_code, passage.section_number, passage.section_path
                if (section.code, section.number, section.path) == key:
                    break
        yield f"||{passage.marker}||"
        yield passage.text


@dataclass(frozen=True, slots=True)
class PublishedChunk:
    """A passage of a published row. `index` is its doc_chunk_index, None where there is none; `text` may be empty."""

    text: str
    index: int | None
    within: int = 0
    code: str = ""
    number: str = ""
    title: str = ""
    has_answer: bool = True

    @property
    def folded(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())

    @classmethod
    def read(cls, value: Any, position: int | None = None) -> PublishedChunk | None:
        """Read an object, or a text whose index is its position in `chunks`. Returns None for any other value."""
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
    """Return a text, the digits of a number, or "" for any other value."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def passages_of(set_id: str, chunks: Iterable[PublishedChunk]) -> dict[int, Passage]:
    """Return the passages of a label by doc_chunk_index.

    Equal texts with the same index are one passage. A chunk without index, or with the index of a different text,
    belongs to the passage with its text, else it becomes a new passage after all given indices.
    """
    with_text = [chunk for chunk in chunks if chunk.folded]
    unused = count(max((chunk.index for chunk in with_text if chunk.index is not None), default=-1) + 1)
    taken: dict[int, str] = {}
    by_text: dict[str, int] = {}
    passages: dict[int, Passage] = {}
    # Chunks with an index come first: a text without one may be the text of any of them.
    for chunk in sorted(with_text, key=lambda chunk: chunk.index is None):
        folded, index = chunk.folded, chunk.index
        if index is None or taken.get(index, folded) != folded:
            known = by_text.get(folded)
            index = next(unused) if known is None else known
        by_text.setdefault(folded, index)
        if taken.setdefault(index, folded) == folded and index not in passages:
            passages[index] = _passage(set_id, index, chunk)
    return dict(sorted(passages.items()))


def passage_finder(passages: Mapping[int, Passage]) -> Callable[[PublishedChunk], int | None]:
    """Return a function that finds the passage of a question's chunk, None where the label does not have it.

    It is the passage with the chunk's index where their texts agree or the chunk has none, else the one with its text.
    Texts agree where one contains the other, or half of their words are common: labels may have been cut differently.
    """
    folded = {index: " ".join(passage.text.split()) for index, passage in passages.items()}
    by_text = {text: index for index, text in reversed(folded.items())}

    def find(chunk: PublishedChunk) -> int | None:
        text = folded.get(chunk.index) if chunk.index is not None else None
        if text is not None and chunk.folded in ("", text):
            return chunk.index
        found = by_text.get(chunk.folded)
        if found is not None or text is None:
            return found
        first, second = set(_WORD.findall(text.lower())), set(_WORD.findall(chunk.folded.lower()))
        similar = len(first & second) >= _MIN_OVERLAP * len(first | second)
        return chunk.index if similar or text in chunk.folded or chunk.folded in text else None

    return find


def with_sections(passages: Mapping[int, Passage], named: Iterable[tuple[int, PublishedChunk]]) -> dict[int, Passage]:
    """Add the sections that questions name for their passages, to passages of a label that has texts only."""
    out = dict(passages)
    for index, chunk in named:
        if not (out[index].section_code or out[index].section_title):
            out[index] = replace(_passage(out[index].set_id, index, chunk), text=out[index].text)
    return out


def _passage(set_id: str, index: int, chunk: PublishedChunk) -> Passage:
    core_code, top = chunk.code, chunk.number.partition(".")[0]
    if core_code in _UNCLASSIFIED and re.fullmatch("[1-9][0-9]?", top) and int(top) <= len(_PLR_CODES):
        core_code = _PLR_CODES[int(top) - 1]
    return Passage(
        set_id=set_id,
        doc_chunk_index=index,
        section_chunk_index=chunk.within,
        section_code=chunk.code,
        core_code=core_code,
        section_number=chunk.number,
        section_title=chunk.title,
        section_path=chunk.title,
        text=chunk.text,
    )


def _index(value: Any) -> int | None:
    """Read a whole number, also one that is written as text or with a fraction of zero."""
    if isinstance(value, str):
        value = int(value) if value.strip().isascii() and value.strip().isdigit() and len(value) < 12 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_INDEX:
        return None
    return int(value) if value == int(value) else None


@dataclass(frozen=True, slots=True)
class PublishedQuestion:
    """A question before its gold passages are found, the context of its row, and the row's place (file:line)."""

    question: QuestionAnswer
    context: list[PublishedChunk]
    place: str

    def gold(self, find: Callable[[PublishedChunk], int | None]) -> list[tuple[int, PublishedChunk]]:
        """Return the gold passages, each once. Raises InputError where the label lacks one of them."""
        found: dict[int, PublishedChunk] = {}
        for chunk in self.context:
            index = find(chunk)
            if index is None:
                where = "without doc_chunk_index" if chunk.index is None else f"doc_chunk_index {chunk.index}"
                raise InputError("context_not_in_label", f"{where}, text {chunk.folded[:80]!r}")
            known = found.get(index, chunk)
            found[index] = replace(known, has_answer=known.has_answer or chunk.has_answer)
        return list(found.items())

    def resolved(
        self, gold: list[tuple[int, PublishedChunk]], passages: dict[int, Passage], drug_name: str
    ) -> QuestionAnswer:
        """Return the question with its gold passages, and with the label's drug name where its row has none."""
        return replace(
            self.question,
            drug_name=self.question.drug_name or drug_name,
            gold_passages=[index for index, _ in gold],
            gold_codes=[passages[index].section_code for index, _ in gold],
            gold_has_answer=[chunk.has_answer for _, chunk in gold],
        )


@dataclass(frozen=True, slots=True)
class PublishedLabel:
    """A row of `labels.jsonl`. `bare` says that its chunks are texts only, without their sections."""

    set_id: str
    drug_name: str
    chunks: list[PublishedChunk]
    bare: bool


def read_question(row: dict[str, Any], place: str) -> PublishedQuestion:
    """Parse a row of `qa.jsonl`. The context of a refusal question is ignored. Raises InputError."""
    set_id, question, answer = (_needed(row, key) for key in ("set_id", "question", "answer"))
    kind = (text_of(row.get("task")) or text_of(row.get("question_type"))).strip().lower()
    if kind not in QUESTION_TYPES:
        raise InputError("unknown_task", f"task is {row.get('task')!r:.80}, not one of {', '.join(QUESTION_TYPES)}")
    context: list[PublishedChunk] = []
    if QUESTION_TYPES[kind].answerable:
        listed = row.get("context")
        if not isinstance(listed, list) or not listed:
            needed = "an answerable question needs a context: the list of passages that it rests on"
            raise InputError("no_context", needed)
        read = [PublishedChunk.read(value) for value in listed]
        context = [chunk for chunk in read if chunk is not None and (chunk.folded or chunk.index is not None)]
        if len(context) < len(read):
            raise InputError("bad_context", "an entry of the context has neither text nor doc_chunk_index")
    return PublishedQuestion(
        QuestionAnswer(
            id=text_of(row.get("qid")).strip() or content_id(set_id.strip(), question),
            type=kind,
            answer_kind=text_of(row.get("question_type")).strip() or kind,
            source=text_of(row.get("source")),
            category=_judgment(row.get("qfilter_category")),
            set_id=set_id.strip(),
            drug_name=text_of(row.get("drug_name")).strip(),
            question=question,
            answer=answer,
            relevance=_judgment(row.get("qfilter_relevance")),
        ),
        context,
        place,
    )


def read_label(row: dict[str, Any]) -> PublishedLabel:
    """Parse a row of `labels.jsonl`, whose `chunks` are objects or texts. Raises InputError."""
    set_id, chunks = _needed(row, "set_id").strip(), row.get("chunks")
    if not isinstance(chunks, list):
        raise InputError("missing_key", "the label has no list of chunks")
    read = [PublishedChunk.read(value, at) for at, value in enumerate(chunks)]
    kept = [chunk for chunk in read if chunk is not None]
    if len(kept) < len(read):
        raise InputError("bad_chunk", f"chunk {read.index(None)} is neither a text nor an object")
    bare = all(isinstance(value, str) for value in chunks)
    return PublishedLabel(set_id, text_of(row.get("drug_name")).strip(), kept, bare)


def _needed(row: dict[str, Any], key: str) -> str:
    value = text_of(row.get(key))
    if not value.strip():
        raise InputError("missing_key", f"{key} is absent, empty or no text")
    return value


def _judgment(value: Any) -> str:
    text = text_of(value).strip()
    return "" if text == NOT_JUDGED else text
