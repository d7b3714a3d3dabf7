"""Predictions of other programs, read from JSON lines, a JSON list, CSV or Parquet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fdarx_core.records import Reject
from fdarx_core.storage.errors import InputError, StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.tables import check_rows_file, no_usable_row, parse_rows, read_rows, text_at

STAGE = "intake"
UNNAMED_SETTING = "given"
"""The setting of predictions that do not name theirs."""

_ID = ("qid", "question_id", "id")
_TEXT = ("answer", "prediction", "response")
_PASSAGE = r"(?:PASSAGE[_ -]?)?(\d{1,7})"
_CITATION = re.compile(rf"\W*{_PASSAGE}(?:\.0)?\W*", re.IGNORECASE | re.ASCII)
_CITATION_RANGE = re.compile(rf"\W*{_PASSAGE}\s*(?:-|–|to)\s*{_PASSAGE}\W*", re.IGNORECASE | re.ASCII)
_LONGEST_RANGE = 100
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class ImportedPrediction:
    """A model's answer to one question. `text` is the whole reply, which may end with a line of citations.

    `cited` are doc_chunk_index values from a field of their own, None where the row has no such field.
    """

    question_id: str
    model: str
    setting: str
    retriever: str
    text: str
    cited: list[int] | None = None


def read_predictions(address: str) -> tuple[list[ImportedPrediction], list[Reject]]:
    """Read the predictions in a `.jsonl`, `.json`, `.csv` or `.parquet` file, in its order, and the rejected rows.

    A row has `qid` (or question_id, id) and `answer` (or prediction, response). Optional are `model` (else the name of
    the file; characters other than letters, digits, ".", "_" and "-" become "-"), `setting` (else "given"),
    `retriever` and `cited`. A second answer to a question by the same model in the same setting and with the same
    retriever is rejected. Raises StorageError for an unreadable file and for one without predictions.
    """
    location = Location(address)
    check_rows_file(location, "--predictions")
    model = location.name.removesuffix(location.suffix)
    predictions: dict[tuple[str, ...], ImportedPrediction] = {}

    def parse(row: dict[str, Any]) -> ImportedPrediction:
        one = _prediction(row, model)
        key = (one.question_id, one.model, one.setting, one.retriever)
        if key in predictions:
            raise InputError("duplicate", f"an earlier row answers it too, as {' / '.join(filter(None, key[1:]))}")
        return predictions.setdefault(key, one)

    rows = parse_rows(read_rows(location, "qid and answer", blank=_TEXT), parse, stage=STAGE, id_keys=_ID)
    rejects = [row for row in rows if isinstance(row, Reject)]
    if not predictions:
        raise StorageError(no_usable_row(address, "answer", "qid and answer", rejects))
    return list(predictions.values()), rejects


def _prediction(row: dict[str, Any], model: str) -> ImportedPrediction:
    question_id = text_at(row, *_ID)
    if not question_id:
        raise InputError("missing_key", f"none of {', '.join(_ID)} names the question")
    text = next((row[key] for key in _TEXT if row.get(key) is not None), None)
    if not isinstance(text, str):
        raise InputError("missing_key", f"none of {', '.join(_TEXT)} holds a text")
    # A model's folders in the run bear its name, so it is written as in a models file: org/model 7b is org-model-7b.
    name = _NOT_IN_NAMES.sub("-", text_at(row, "model") or model).strip("-._") or "unnamed"
    setting = text_at(row, "setting") or UNNAMED_SETTING
    return ImportedPrediction(question_id, name, setting, text_at(row, "retriever"), text, _cited(row.get("cited")))


def _cited(value: Any) -> list[int] | None:
    """Read numbers, and names such as PASSAGE_0012, [12] and PASSAGE_0003-PASSAGE_0005, from a list or one text."""
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
        if first <= last < first + _LONGEST_RANGE:
            return list(range(first, last + 1))
    raise InputError("unreadable_citation", f"{item!r:.80} names no passage; write PASSAGE_0012 or 12")
