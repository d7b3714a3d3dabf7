"""Answers that were made elsewhere, as people keep them: JSON lines, a JSON list, CSV or Parquet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fdarx_core.records import Reject
from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.tables import FileRow, check_rows_file, read_rows

STAGE = "intake"
UNNAMED_SETTING = "given"
"""The setting of answers that don't name theirs."""

_ID = ("qid", "question_id", "id")
_TEXT = ("answer", "prediction", "response")
_CITATION = re.compile(r"\W*(?:PASSAGE[_ -]?)?(\d{1,7})(?:\.0)?\W*", re.IGNORECASE | re.ASCII)
_CITATION_RANGE = re.compile(
    r"\W*(?:PASSAGE[_ -]?)?(\d{1,7})\s*(?:-|–|to)\s*(?:PASSAGE[_ -]?)?(\d{1,7})\W*", re.IGNORECASE | re.ASCII
)
_WIDEST = 100
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class ImportedPrediction:
    """A model's answer to one question. `text` is what it said, perhaps with its line of citations.

    `cited` are doc_chunk_index values where the row names them apart from the text, None where it does not.
    """

    question_id: str
    model: str
    setting: str
    retriever: str
    text: str
    cited: list[int] | None = None


def read_predictions(address: str) -> tuple[list[ImportedPrediction], list[Reject]]:
    """The answers in a `.jsonl`, `.json`, `.csv` or `.parquet` file, in its order, and the rows that are none.

    A row has `qid` (or question_id, id) and `answer` (or prediction, response); perhaps `model` (else the file's name;
    signs other than letters, digits, ".", "_" and "-" become "-"), `setting` (else given), `retriever`, `cited`. A
    second answer to a question by the same model in the same setting and retriever is a reject. Raises `StorageError`
    where the file can't be read or holds no answer.
    """
    location = Location(address)
    check_rows_file(location, "--predictions")
    rows = read_rows(location, "qid and answer", blank=_TEXT)
    answers, rejects = _sorted_out(rows, model=location.name.removesuffix(location.suffix))
    if not answers:
        first = f"the first row: {rejects[0].source}: {rejects[0].reason}, {rejects[0].detail}" if rejects else "no row"
        raise StorageError(f"{address} holds no answer ({first}); a row needs qid and answer")
    return answers, rejects


def _sorted_out(rows: Iterator[FileRow], model: str) -> tuple[list[ImportedPrediction], list[Reject]]:
    answers: dict[tuple[str, ...], ImportedPrediction] = {}
    rejects: list[Reject] = []
    for place, row, fault in rows:
        try:
            one = _answer(row, fault, model)
            key = (one.question_id, one.model, one.setting, one.retriever)
            if key in answers:
                raise ValueError(f"duplicate: an earlier row answers it too, as {' / '.join(filter(None, key[1:]))}")
            answers[key] = one
        except ValueError as error:
            reason, _, detail = str(error).partition(": ")
            rejects.append(Reject(_text(row, *_ID) or place, STAGE, reason, detail, source=place))
    return list(answers.values()), rejects


def _answer(row: dict[str, Any], fault: str, model: str) -> ImportedPrediction:
    """Raises `ValueError("reason: detail")`."""
    if fault:
        raise ValueError(fault)
    question_id = _text(row, *_ID)
    if not question_id:
        raise ValueError(f"missing_key: none of {', '.join(_ID)} names the question")
    said = next((row[key] for key in _TEXT if row.get(key) is not None), None)
    if not isinstance(said, str):
        raise ValueError(f"missing_key: none of {', '.join(_TEXT)} holds a text")
    named = {"model": _name(_text(row, "model") or model), "setting": _text(row, "setting") or UNNAMED_SETTING}
    return ImportedPrediction(question_id, **named, retriever=_text(row, "retriever"), text=said, cited=_cited(row))


def _name(model: str) -> str:
    """As models are named in a models file, since folders of the run bear the name: org/model 7b is org-model-7b."""
    return _NOT_IN_NAMES.sub("-", model).strip("-._") or "unnamed"


def _text(row: dict[str, Any], *keys: str) -> str:
    """The first of the keys' values that is a text or a whole number."""
    values = (row.get(key) for key in keys)
    usable = (str(one).strip() for one in values if isinstance(one, str | int) and not isinstance(one, bool))
    return next(filter(None, usable), "")


def _cited(row: dict[str, Any]) -> list[int] | None:
    """Numbers, or names such as PASSAGE_0012, [12] and PASSAGE_0003-PASSAGE_0005; a list, or one text with commas."""
    value = row.get("cited")
    if value is None:
        return None
    items = re.split(r"[,;\n]", value.strip("[](){} ")) if isinstance(value, str) else value
    if not isinstance(items, list):
        items = [items]
    return list(dict.fromkeys(index for item in items for index in _indices(item)))


def _indices(item: Any) -> list[int]:
    if isinstance(item, str) and not item.strip():
        return []
    text = str(item) if isinstance(item, str | int | float) and not isinstance(item, bool) else ""
    if one := _CITATION.fullmatch(text):
        return [int(one[1])]
    if ends := _CITATION_RANGE.fullmatch(text):
        first, last = int(ends[1]), int(ends[2])
        if first <= last < first + _WIDEST:
            return list(range(first, last + 1))
    raise ValueError(f"unreadable_citation: {item!r:.80} names no passage; write PASSAGE_0012 or 12")
