"""Import of the files that annotators hand in: JSON of the pages, filled-in CSV sheets, JSON lines.

All files are checked before anything is written, and no annotation is overwritten.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from fdarx_core.records import content_id
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review.review_set import FORMAT, Review, merge_annotations
from fdarx_core.storage import Location, StorageError, write_records
from fdarx_core.storage.tables import read_rows

SUFFIXES = (".json", ".jsonl", ".csv")
_REQUIRED = ("review", "annotator", "id", "value")
_LETTERS = "abc"
_MAX_LISTED = 3
"""Maximum number of item ids in a notice."""


@dataclass(slots=True)
class ImportResult:
    """The result of an import: `new` annotations in `files`, `known` ones that were imported before.

    Each of the `notices` is a line that says what was left out or is still missing.
    """

    new: int = 0
    known: int = 0
    files: list[Location] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def import_annotations(review: Review, files: Sequence[str]) -> ImportResult:
    """Import the files of annotators' pages (.json) and filled-in items (.csv, .jsonl).

    An item without a value counts as unanswered. Raises ValueError for a row of another review, for an annotator,
    item or value that the review does not have, and for an annotator who gives an item two values, in these files or an
    earlier import; StorageError for a file that can't be read. In both cases nothing is written.
    """
    items = {item.id: item for item in review.items()}
    result = ImportResult()
    new: dict[str, list[Annotation]] = defaultdict(list)
    known = {(row.annotator, row.item_id): row for row in review.annotations()}
    for file in files:
        for place, row in _checked_rows(review, items, file, result.notices):
            key = (row.annotator, row.item_id)
            before = known.get(key)
            if before is None or _adds_remark(before, row, place):
                new[row.annotator].append(row)
                known[key] = row if before is None else merge_annotations([before, row])[0]
            else:
                result.known += 1
    for annotator, rows in sorted(new.items()):
        merged = merge_annotations(rows)
        contents = [f"{row.item_id}\x1f{row.value}\x1f{row.remark}" for row in merged]
        location = review.root / f"annotations/{annotator}-{content_id(*contents)}.parquet"
        write_records(location, merged, Annotation)
        result.files.append(location)
        result.new += len(merged)
    result.notices += _incomplete(len(items), known.values())
    return result


AnnotationRow: TypeAlias = tuple[str, str, Annotation]
"""A row of a file before it is checked: its place (file:row), the review that it names, and the annotation."""


def read_annotation_file(file: str) -> Iterator[AnnotationRow]:
    """Read the rows of a file that an annotator handed in; rows of a sheet without any entry are skipped.

    Raises StorageError for a file that can't be read, is empty or has another suffix, and for a row that is not an
    object or lacks a required column.
    """
    location = Location(file)
    if location.suffix.lower() not in SUFFIXES:
        raise StorageError(f"{file} is not .json, .csv or .jsonl; give a file that a page saved, or a filled-in sheet")
    if not location.read_bytes().strip():
        raise StorageError(f"{file} is empty; give a file that a page saved, or a filled-in sheet")
    rows = _page_rows(location) if location.suffix.lower() == ".json" else _sheet_rows(location)
    for place, row in rows:
        if missing := [name for name in _REQUIRED if name not in row]:
            raise StorageError(f"{place} lacks {', '.join(missing)}; keep the columns of items.csv, with commas")
        yield place, _text(row["review"]).removeprefix("review-"), _annotation(place, row)


def _annotation(place: str, row: Mapping[str, Any]) -> Annotation:
    seconds = row.get("seconds", 0.0)
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise StorageError(f"{place}: seconds is {seconds!r}, not a duration; hand in the file as it was saved")
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


def _page_rows(location: Location) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        page = json.loads(location.read_bytes())
    except ValueError as error:
        raise StorageError(f"{location} is not JSON ({error}); save it again from the page") from error
    answers = page.get("answers") if isinstance(page, dict) else None
    if not isinstance(answers, list) or not all(isinstance(row, dict) for row in answers):
        raise StorageError(f"{location} was not saved by an annotator's page: it has no list of answers")
    if page.get("format") != FORMAT:
        raise StorageError(f"{location} has format {page.get('format')}, this version reads {FORMAT}; update fdarx")
    shared = {"review": page.get("review"), "annotator": page.get("annotator")}
    for number, row in enumerate(answers, 1):
        yield f"{location.name}:{number}", {**row, **shared}


def _sheet_rows(location: Location) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, row, fault in read_rows(location, ", ".join(_REQUIRED), blank=_REQUIRED):
        if fault:
            raise StorageError(f"{place}: {fault}; give one line per item, as in items.jsonl")
        if any(_text(row.get(name)) for name in ("value", "remark", "annotator")):
            yield place, row


def _checked_rows(
    review: Review, items: Mapping[str, ReviewItem], file: str, notices: list[str]
) -> Iterator[tuple[str, Annotation]]:
    """Yield the annotations of a file that have a value, each with its place."""
    without_value: list[str] = []
    rows = list(read_annotation_file(file))
    if not rows:
        notices.append(f"{file}: nothing is filled in")
    for place, review_id, row in rows:
        item = _item(review, items, place, review_id, row)
        value = _value(item, place, row)
        if value:
            yield place, replace(row, task=item.task, value=value)
        elif row.remark:
            without_value.append(item.id)
    if without_value:
        listed = ", ".join(without_value[:_MAX_LISTED]) + (" …" if len(without_value) > _MAX_LISTED else "")
        notices.append(
            f"{file}: {len(without_value)} remarks are on items without a value ({listed}) and are left out; give "
            "these items a value to keep the remarks"
        )


def _item(review: Review, items: Mapping[str, ReviewItem], place: str, review_id: str, row: Annotation) -> ReviewItem:
    if review_id != review.digest:
        given = f"of review {review_id!r}" if review_id else "without a review's id"
        raise ValueError(f"{place}: the row is {given}, this is {review.digest}; import it into its own review")
    known = review.info["annotators"]
    if row.annotator not in known:
        raise ValueError(
            f"{place}: there is no annotator {row.annotator!r}; known are {', '.join(known)}. To add one, run "
            "`fdarx review sample` with the same options and the name in --annotators"
        )
    if row.item_id not in items:
        raise ValueError(
            f"{place}: the review has no item {row.item_id!r}; ids have 16 hexadecimal digits, see "
            f"{review.root}/items.csv"
        )
    return items[row.item_id]


def _value(item: ReviewItem, place: str, row: Annotation) -> str:
    """Return the choice of a row, "" for none; case is ignored. For up to three choices, a, b and c are accepted.

    Raises ValueError for a value that is no choice.
    """
    given = row.value.strip().casefold()
    letters = dict(zip(_LETTERS, item.choices, strict=False)) if len(item.choices) <= len(_LETTERS) else {}
    values = {"": "", **letters, **{choice.casefold(): choice for choice in item.choices}}
    if given not in values:
        raise ValueError(
            f"{place}: {row.value!r} is not a value of item {item.id} ({item.task}); give one of "
            f"{', '.join(item.choices)}, or leave it empty"
        )
    return values[given]


def _adds_remark(before: Annotation, row: Annotation, place: str) -> bool:
    """Return whether a row adds a remark to an annotation that is there. Raises ValueError for another value."""
    if before.value != row.value:
        raise ValueError(
            f"{place}: {row.annotator} gives item {row.item_id} the value {row.value!r}, but {before.value!r} was "
            "handed in before; nothing is overwritten: ask the annotator which is right, and hand in that file alone"
        )
    return row.remark not in before.remark


def _incomplete(total: int, rows: Iterable[Annotation]) -> list[str]:
    counts = Counter(row.annotator for row in rows)
    return [
        f"{name}: {count} of {total} items are answered, {total - count} are left"
        for name, count in sorted(counts.items())
        if count < total
    ]
