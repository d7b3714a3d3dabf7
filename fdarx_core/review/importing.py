"""Import of the files that annotators hand in: JSON of the pages, of Label Studio and of Argilla, filled-in CSV sheets,
JSON lines; and export of people's verdicts on claims as marked pairs for a verifier.

All files are checked before anything is written, and no annotation is overwritten.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from fdarx_core.evaluation.verifier_scores import MarkedPair
from fdarx_core.records import content_id
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review.agreement_metrics import collect_votes, consensus
from fdarx_core.review.argilla import is_argilla, read_argilla
from fdarx_core.review.label_studio import is_label_studio, read_label_studio
from fdarx_core.review.review_set import FORMAT, Review, merge_annotations
from fdarx_core.review.tasks import CLAIM_TASK, REVIEW_TASKS, UNSURE
from fdarx_core.review.tool_annotations import PlacedRow, ToolAnnotations
from fdarx_core.storage import Location, StorageError, write_records
from fdarx_core.storage.tables import read_rows


def marked_pairs(review: Review) -> list[MarkedPair]:
    """Return the claims of a review on which people have a verdict, each with all its passages as one text.

    The verdict is the adjudicated one, or that of the majority. Raises StorageError where there is none.
    """
    items = [item for item in review.items() if item.task == CLAIM_TASK]
    votes = [vote for vote in review.annotations() if vote.task == CLAIM_TASK]
    source = f"review-{review.digest}"
    found = [
        MarkedPair("\n\n".join(one.item.evidence), one.item.statement, verdict, source, one.item.drug)
        for one in collect_votes(items, votes)
        if one.item.evidence and (verdict := consensus(one.values))
    ]
    if not found:
        raise StorageError(f"{review.root} has no claims with passages on which people have a verdict")
    return found


def export_pairs(review: Review, out: Location) -> int:
    """Write `marked_pairs` as JSON lines, as `fdarx verify --pairs` reads them; return their number."""
    pairs = marked_pairs(review)
    rows = [
        {"statement": one.statement, "text": one.text, "gold": one.mark, "source": one.source, "drug": one.drug}
        for one in pairs
    ]
    out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return len(pairs)


SUFFIXES = (".json", ".jsonl", ".csv")
_REQUIRED = ("review", "annotator", "id", "value")
_FILLED_IN = ("value", "remark", "annotator")
"""The columns of a sheet that annotators fill in."""
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


def import_annotations(review: Review, files: Sequence[str], users: Mapping[str, str] | None = None) -> ImportResult:
    """Import files of annotators' pages, of Label Studio and of Argilla (.json, .jsonl), and filled-in items (.csv,
    .jsonl).

    `users` maps ids or addresses of a tool's users to annotators, "" for users whose annotations are left out. An item
    without a value counts as unanswered. Raises ValueError for rows of another review, for an annotator, item or value
    that the review does not have (the message counts the rows and quotes the first of them), and for an annotator who
    gives an item two values, in these files or an earlier import; StorageError for a file that can't be read. In all
    cases nothing is written.
    """
    items = {item.id: item for item in review.items()}
    result = ImportResult()
    new: dict[str, list[Annotation]] = defaultdict(list)
    known = {(row.annotator, row.item_id): row for row in review.annotations()}
    for file in files:
        for place, row in _checked_rows(review, items, file, result.notices, users or {}):
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
    result.notices += _incomplete(review, known.values())
    return result


AnnotationRow: TypeAlias = tuple[str, str, Annotation]
"""A row of a file before it is checked: its place (file:row), the review that it names, and the annotation."""


def read_annotation_file(
    file: str, people: Sequence[str], users: Mapping[str, str], notices: list[str]
) -> Iterator[AnnotationRow]:
    """Read the rows of a file that an annotator handed in; rows of a sheet without any entry are skipped.

    What an annotation tool hands back is counted in a line of `notices`. Raises StorageError for a file that can't be
    read, is empty or has another suffix, and for a row that is not an object or lacks a required column.
    """
    location = Location(file)
    if location.suffix.lower() not in SUFFIXES:
        raise StorageError(f"{file} is not .json, .csv or .jsonl; give a file that a page saved, or a filled-in sheet")
    if not location.read_bytes().strip():
        raise StorageError(f"{file} is empty; give a file that a page saved, or a filled-in sheet")
    for place, row in _file_rows(location, ToolAnnotations(people, users), notices):
        if missing := [name for name in _REQUIRED if name not in row]:
            raise StorageError(f"{place} lacks {', '.join(missing)}; keep the columns of items.csv, with commas")
        yield place, _text(row["review"]).removeprefix("review-"), _annotation(place, row)


def _file_rows(location: Location, found: ToolAnnotations, notices: list[str]) -> Iterable[PlacedRow]:
    if location.suffix.lower() == ".json":
        page = _json(location)
        if not isinstance(page, list) or not page:
            return _page_rows(location, page)
        rows = [row if isinstance(row, dict) else {} for row in page]
    else:
        sheet = list(_sheet_rows(location))
        rows = [row for _, row in sheet]
        if not rows or not (is_argilla(rows[0]) or is_label_studio(rows[0])):
            return [(place, row) for place, row in sheet if any(_text(row.get(name)) for name in _FILLED_IN)]
    (read_argilla if is_argilla(rows[0]) else read_label_studio)(location.name, rows, found)
    notices.append(found.finish(location.name))
    return found.rows


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


def _json(location: Location) -> Any:
    try:
        return json.loads(location.read_bytes())
    except ValueError as error:
        raise StorageError(f"{location} is not JSON ({error}); save it again from the page") from error


def _page_rows(location: Location, page: Any) -> Iterator[PlacedRow]:
    answers = page.get("answers") if isinstance(page, dict) else None
    if not isinstance(answers, list) or not all(isinstance(row, dict) for row in answers):
        raise StorageError(f"{location} was not saved by an annotator's page: it has no list of answers")
    if page.get("format") != FORMAT:
        raise StorageError(f"{location} has format {page.get('format')}, this version reads {FORMAT}; update fdarx")
    shared = {"review": page.get("review"), "annotator": page.get("annotator")}
    for number, row in enumerate(answers, 1):
        yield f"{location.name}:{number}", {**row, **shared}


def _sheet_rows(location: Location) -> Iterator[PlacedRow]:
    for place, row, fault in read_rows(location, ", ".join(_REQUIRED), blank=_REQUIRED):
        if fault:
            raise StorageError(f"{place}: {fault}; give one line per item, as in items.jsonl")
        yield place, row


def _checked_rows(
    review: Review, items: Mapping[str, ReviewItem], file: str, notices: list[str], users: Mapping[str, str]
) -> Iterator[tuple[str, Annotation]]:
    """Yield the annotations of a file that have a value, each with its place.

    Raises ValueError where rows can't be imported, with their number and the first of them.
    """
    without_value: list[str] = []
    faults: list[str] = []
    rows = list(read_annotation_file(file, review.people, users, notices))
    if not rows:
        notices.append(f"{file}: nothing is filled in")
    for place, review_id, row in rows:
        try:
            item = _item(review, items, place, review_id, row)
            value = _value(item, place, row)
        except ValueError as error:
            faults.append(str(error))
            continue
        if value:
            adjudicated = row.annotator in review.info.get("adjudicators", ())
            yield place, replace(row, task=item.task, value=value, adjudicated=adjudicated)
        elif row.remark:
            without_value.append(item.id)
    if faults:
        more = f". {len(faults) - 1} further rows of {file} can't be imported either" if len(faults) > 1 else ""
        raise ValueError(f"{faults[0]}{more}; nothing was imported")
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
    known = review.people
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
    """Return the choice of a row, "" for none; case is ignored, and the text of a choice stands for it.

    For up to three choices, a, b and c are accepted.

    Raises ValueError for a value that is no choice.
    """
    given = row.value.strip().casefold()
    verdicts = [choice for choice in item.choices if choice != UNSURE]
    letters = dict(zip(_LETTERS, verdicts, strict=False)) if len(verdicts) <= len(_LETTERS) else {}
    texts = {text.casefold(): value for value, text in REVIEW_TASKS[item.task].options.items()}
    values = {"": "", **letters, **texts, **{choice.casefold(): choice for choice in item.choices}}
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


def _incomplete(review: Review, rows: Iterable[Annotation]) -> list[str]:
    done = {(row.annotator, row.item_id) for row in rows}
    counts = Counter(name for name, _ in done)
    notices: list[str] = []
    for name, items in review.shares().items():
        left = sum((name, item.id) not in done for item in items)
        if counts[name] and left:
            notices.append(f"{name}: {len(items) - left} of {len(items)} items are answered, {left} are left")
    return sorted(notices)
