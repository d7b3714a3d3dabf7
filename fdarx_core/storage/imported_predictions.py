"""Predictions of other programs: files with a row for each answer, and logs of evaluation harnesses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fdarx_core.records import Reject
from fdarx_core.storage.errors import InputError, StorageError
from fdarx_core.storage.harness_logs import find_logs, read_log
from fdarx_core.storage.location import Location
from fdarx_core.storage.tables import FileRow, check_rows_file, no_usable_row, parse_rows, read_rows, text_at

_INTAKE = "intake"
UNNAMED_SETTING = "given"
"""The setting of predictions that do not name theirs."""

TEXT_KEYS = ("answer", "prediction", "response")
"""The keys of a row under which the text of an answer may be."""
_ID = ("qid", "question_id", "id")
_NEEDED = "qid and answer"
_LOGS = "; or a log of inspect (.eval) or lm-eval (samples_*.jsonl), or a folder of logs"
_PASSAGE = r"(?:PASSAGE[_ -]?)?(\d{1,7})"
_CITATION = re.compile(rf"\W*{_PASSAGE}(?:\.0)?\W*", re.IGNORECASE | re.ASCII)
_CITATION_RANGE = re.compile(rf"\W*{_PASSAGE}\s*(?:-|–|to)\s*{_PASSAGE}\W*", re.IGNORECASE | re.ASCII)
_LONGEST_RANGE = 100
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class ImportedPrediction:
    """A model's answer to one question. `text` is the whole reply, which may end with a line of citations.

    `cited` are doc_chunk_index values from a field of their own, None where the row has no such field. Of an answer
    to an exported prompt, `citable` are those of the passages that the prompt marks, None for other answers.
    `finish_reason` is that of the server: stop, length or content_filter.
    """

    question_id: str
    model: str
    setting: str
    retriever: str
    text: str
    cited: list[int] | None = None
    citable: list[int] | None = None
    finish_reason: str = "stop"


def read_predictions(address: str) -> tuple[list[ImportedPrediction], list[Reject]]:
    """Read the predictions in a file or in logs, in their order, and the rejected rows.

    A file is `.jsonl`, `.json`, `.csv` or `.parquet`. A row has `qid` (or question_id, id) and `answer` (or prediction,
    response). Optional are `model` (else the name of the file; characters other than letters, digits, ".", "_" and "-"
    become "-"), `setting` (else "given"), `retriever` and `cited`. Logs are those that inspect and lm-eval write about
    tasks of `fdarx export`: one file, or a folder with several. A second answer to a question by the same model in the
    same setting and with the same retriever is rejected. Raises StorageError for an unreadable file and for one without
    predictions.
    """
    location = Location(address)
    logs = find_logs(location)
    if not logs:
        check_rows_file(location, "--predictions", _LOGS)
    model = location.name.removesuffix(location.suffix)
    predictions: dict[tuple[str, ...], ImportedPrediction] = {}

    def parse(row: dict[str, Any]) -> ImportedPrediction:
        one = _prediction(row, model)
        key = (one.question_id, one.model, one.setting, one.retriever)
        if key in predictions:
            raise InputError("duplicate", f"an earlier row answers it too, as {' / '.join(filter(None, key[1:]))}")
        return predictions.setdefault(key, one)

    rows = _rows_of_logs(logs) if logs else read_rows(location, _NEEDED, blank=TEXT_KEYS)
    rejects = [row for row in parse_rows(rows, parse, stage=_INTAKE, id_keys=_ID) if isinstance(row, Reject)]
    if not predictions:
        raise StorageError(no_usable_row(address, "answer", _NEEDED, rejects))
    return list(predictions.values()), rejects


def _rows_of_logs(logs: list[Location]) -> Iterator[FileRow]:
    for log in logs:
        yield from read_log(log)


def _prediction(row: dict[str, Any], model: str) -> ImportedPrediction:
    question_id = text_at(row, *_ID)
    if not question_id:
        raise InputError("missing_key", f"none of {', '.join(_ID)} names the question")
    text = answer_text(row, "missing_key")
    # A model's folders in the run bear its name, so it is written as in a models file: org/model 7b is org-model-7b.
    name = _NOT_IN_NAMES.sub("-", text_at(row, "model") or model).strip("-._") or "unnamed"
    return ImportedPrediction(
        question_id,
        name,
        text_at(row, "setting") or UNNAMED_SETTING,
        text_at(row, "retriever"),
        text,
        _cited(row.get("cited")),
        _cited(row.get("citable")),
        text_at(row, "finish_reason") or "stop",
    )


def answer_text(row: dict[str, Any], reason: str) -> str:
    """Return the text of the answer, which may be blank. Raises InputError with this reason where there is none."""
    text = next((row[key] for key in TEXT_KEYS if row.get(key) is not None), None)
    if not isinstance(text, str):
        raise InputError(reason, f"none of {', '.join(TEXT_KEYS)} holds a text")
    return text


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
