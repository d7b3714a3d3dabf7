"""A review set: the folder that holds what people are asked, their pages, and what they said.

    REVIEW/review.json        what was drawn from which run, and how; written last
    REVIEW/items.parquet      the ReviewItem rows, in the order in which all annotators see them
    REVIEW/items.jsonl        the same, a line each, with the judge's decision
    REVIEW/items.csv          the same to fill in on a spreadsheet, without the judge's decision
    REVIEW/ANNOTATOR.html     the page of one annotator
    REVIEW/annotations/ANNOTATOR-HASH.parquet   Annotation rows of one import; nothing is overwritten

`review.json` has format, digest (the review's id: it says which items, with which texts and decisions), run (its
address), job, input (the digest of the run's input), seed, n, tasks, annotators, models and settings (an evaluation's,
[] for all), by (what it is stratified by), population, subjects (drawn questions or predictions), items, strata (each
with name, size, drawn, fraction), versions, written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fdarx_core.records.review import Annotation, ReviewItem
from fdarx_core.storage import Location, StorageError, read_records

FORMAT = 1
"""Raised when a reader of an older layout would misread a newer one."""
INFO = "review.json"


@dataclass(frozen=True, slots=True)
class Review:
    """A review set that stands whole. `info` is its review.json."""

    root: Location
    info: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """The review's id."""
        return str(self.info["digest"])

    def items(self) -> list[ReviewItem]:
        """In the order in which annotators see them."""
        return list(read_records(self.root / "items.parquet", ReviewItem))

    def annotations(self) -> list[Annotation]:
        """One for each annotator and item, sorted by both; none before an import.

        What an annotator said of an item in several imports is one: its value is the same in all, its remarks joined.
        """
        files = [file for file in (self.root / "annotations").list() if file.suffix == ".parquet"]
        return merged(row for file in files for row in read_records(file, Annotation))


def open_review(address: str) -> Review:
    """The review set at an address, on disk or s3://. `StorageError` where there is none or it is damaged."""
    root = Location(address)
    if not (root / INFO).exists():
        raise StorageError(
            f"{address} is no review: it has no {INFO}; give the folder that `fdarx review sample` wrote"
        )
    try:
        info = json.loads((root / INFO).read_bytes())
    except ValueError as error:
        raise StorageError(f"{root}/{INFO} is damaged ({error}); draw the sample again into another folder") from error
    if not isinstance(info, dict) or not {"format", "digest", "annotators", "tasks"} <= info.keys():
        raise StorageError(f"{root}/{INFO} is not one that this program wrote; give a folder of `fdarx review sample`")
    if info["format"] != FORMAT:
        raise StorageError(f"{root}/{INFO} has format {info['format']}, this version reads {FORMAT}; update fdarx")
    return Review(root, info)


def merged(rows: Iterable[Annotation]) -> list[Annotation]:
    """One row for each annotator and item, sorted by both. `StorageError` where one gave an item two values."""
    found: dict[tuple[str, str], list[Annotation]] = {}
    for row in rows:
        found.setdefault((row.annotator, row.item_id), []).append(row)
    return [_one(found[key]) for key in sorted(found)]


def _one(rows: list[Annotation]) -> Annotation:
    remarks = sorted({row.remark for row in rows if row.remark})
    first = rows[0]
    if values := sorted({row.value for row in rows} - {first.value}):
        raise StorageError(
            f"{first.annotator} gave item {first.item_id} two values, {first.value!r} and {values[0]!r}: imports ran "
            "at the same time; take one of the two files out of annotations/"
        )
    return Annotation(
        first.item_id,
        first.annotator,
        first.task,
        first.value,
        " / ".join(remarks),
        any(row.saw_decision for row in rows),
        min(row.seconds for row in rows),
    )
