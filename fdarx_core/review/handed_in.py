"""The files that annotators hand in, row by row: a page's JSON, a filled-in CSV sheet, JSON lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fdarx_core.records.review import Annotation
from fdarx_core.review.items import FORMAT
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.rows_file import read_rows

SUFFIXES = (".json", ".jsonl", ".csv")
_NEEDED = ("review", "annotator", "id", "value")


@dataclass(frozen=True, slots=True)
class HandedIn:
    """One row as it was handed in, unchecked: `place` is file:row, `review` the id that it names."""

    place: str
    review: str
    said: Annotation


def read_handed_in(file: str) -> Iterator[HandedIn]:
    """The file's rows; none of a sheet in which nothing is filled in.

    StorageError where it can't be read or is empty, or a row is no object or lacks what all rows need.
    """
    location = Location(file)
    if location.suffix.lower() not in SUFFIXES:
        raise StorageError(f"{file} is of another kind; give what a page saved (.json), or a filled-in .csv or .jsonl")
    if not location.read_bytes().strip():
        raise StorageError(f"{file} is empty; hand in what the page saved, or a filled-in sheet")
    rows = _of_page(location) if location.suffix.lower() == ".json" else _of_rows(location)
    for place, row in rows:
        if missing := [name for name in _NEEDED if name not in row]:
            raise StorageError(f"{place} lacks {', '.join(missing)}; keep the columns of items.csv, commas between")
        yield HandedIn(place, _text(row["review"]).removeprefix("review-"), _annotation(place, row))


def _annotation(place: str, row: dict[str, Any]) -> Annotation:
    seconds = row.get("seconds", 0.0)
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise StorageError(f"{place}: seconds is {seconds!r}, no span of time; hand in the file as it was saved")
    return Annotation(
        item_id=_text(row["id"]).removeprefix("item-"),
        annotator=_text(row["annotator"]),
        task=_text(row.get("task")),
        value=_text(row["value"]),
        remark=_text(row.get("remark")),
        saw_decision=row.get("saw_decision") is True,
        seconds=float(seconds),
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _of_page(location: Location) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        saved = json.loads(location.read_bytes())
    except ValueError as error:
        raise StorageError(f"{location} is not JSON ({error}); save it again from the page") from error
    answers = saved.get("answers") if isinstance(saved, dict) else None
    if not isinstance(answers, list) or not all(isinstance(row, dict) for row in answers):
        raise StorageError(f"{location} is not what an annotator's page saves: it has no list of answers")
    if saved.get("format") != FORMAT:
        raise StorageError(f"{location} has format {saved.get('format')}, this version reads {FORMAT}; update fdarx")
    shared = {"review": saved.get("review"), "annotator": saved.get("annotator")}
    for number, row in enumerate(answers, 1):
        yield f"{location.name}:{number}", {**row, **shared}


def _of_rows(location: Location) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows nobody filled in are no one's: the sheet comes with a row an item, and no annotator named."""
    for place, row, fault in read_rows(location, ", ".join(_NEEDED), blank=_NEEDED):
        if fault:
            raise StorageError(f"{place}: {fault}; hand in a line an item, as items.jsonl has them")
        if _text(row.get("value")) or _text(row.get("remark")) or _text(row.get("annotator")):
            yield place, row
