"""Rows in the format in which FDARxBench was published: its keys, their order, and what it writes where it has nothing.

Source: FDARxBench's released `qa.jsonl` and `labels.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fdarx_core.records import Label, Passage, QuestionAnswer, Section
from fdarx_core.storage.benchmark.reading import LabelRows

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
