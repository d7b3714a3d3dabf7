"""Reads and writes the folder of a review: the items to annotate, the pages of the annotators, and their annotations.

    REVIEW/review.json        what was drawn from which run, and how; written last
    REVIEW/items.parquet      the ReviewItem rows, in the order in which all annotators see them
    REVIEW/items.jsonl        the same, one line an item, with the judge's decision
    REVIEW/items.csv          the same to fill in on a spreadsheet, without the judge's decision
    REVIEW/ANNOTATOR.html     the page of one annotator
    REVIEW/annotations/ANNOTATOR-HASH.parquet   the Annotation rows of one import; no file is overwritten

`review.json` has these fields:

    digest                              the id of the review: a hash of the items with their texts and decisions
    run, job, input                     the address of the run, its job, and the digest of its input
    n, seed, tasks, models, settings    options of the sample; models and settings are [] for all
    by, strata                          the keys of the strata; the strata, each with name, size, drawn and fraction
    population, subjects, items         the number of questions or predictions, of those drawn, and of items
    annotators, adjudicators            their names
    overlap                             the share of the drawn subjects that all annotators get
    format, versions, written           the version of this layout, the versions of the software, and the time
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from math import floor
from typing import Any

from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review.agreement_metrics import AnnotatedItem, collect_votes
from fdarx_core.review.items import ReviewSample
from fdarx_core.review.tasks import REVIEW_TASKS, UNSURE
from fdarx_core.storage import Location, RunConflict, StorageError, read_records, write_records

FORMAT_VERSION = 1
"""Increase it when older versions would misread the new layout."""
INFO_FILE = "review.json"

PageRenderer = Callable[[Mapping[str, Any], Sequence[AnnotatedItem], str], str]
"""Renders an annotator's page from review.json, the items with the annotations to show, and the annotator's name."""

SHEET_COLUMNS = (
    "review", "id", "task", "asks", "drug", "set_id", "type", "question", "answer", "statement", "gold", "context",
    "choices", "annotator", "value", "remark",
)  # fmt: skip
"""The columns of items.csv, without those that would show the judge's decision.

Ids get the prefix `item-` or `review-`: a spreadsheet would read an id of digits and an "e" as a number.
"""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Review:
    """A complete review folder. `info` holds its review.json."""

    root: Location
    info: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """The id of the review."""
        return str(self.info["digest"])

    def items(self) -> list[ReviewItem]:
        """Return the items in the order in which annotators see them."""
        return list(read_records(self.root / "items.parquet", ReviewItem))

    @property
    def reviewers(self) -> list[str]:
        """The names of the annotators and the adjudicators."""
        return [*self.info["annotators"], *self.info.get("adjudicators", ())]

    def items_by_annotator(self) -> dict[str, list[ReviewItem]]:
        """Return the items of each annotator."""
        return assign_items(self.items(), self.info["annotators"], self.info.get("overlap", 1.0))

    def disagreements(self) -> list[AnnotatedItem]:
        """Return the items whose annotations differ or that an annotator marked unsure, with all their annotations."""
        annotations = [row for row in self.annotations() if not row.adjudicated]
        return [annotated for annotated in collect_votes(self.items(), annotations) if annotated.differs]

    def adjudicated_ids(self) -> set[str]:
        """Return the ids of the items with an adjudicated verdict."""
        return {row.item_id for row in self.annotations() if row.adjudicated and row.value != UNSURE}

    def annotations(self) -> list[Annotation]:
        """Return the imported annotations, one for each annotator and item, sorted by both."""
        files = [file for file in (self.root / "annotations").list() if file.suffix == ".parquet"]
        return merge_annotations(row for file in files for row in read_records(file, Annotation))


def open_review(address: str) -> Review:
    """Open the review at an address, on disk or s3://. Raises StorageError where there is none or it is damaged."""
    root = Location(address)
    file = root / INFO_FILE
    if not file.exists():
        raise StorageError(f"{address} is not a review: it has no {INFO_FILE}; give a folder of `fdarx review sample`")
    try:
        info = json.loads(file.read_bytes())
    except ValueError as error:
        raise StorageError(f"{file} is damaged ({error}); draw the sample again into another folder") from error
    if not isinstance(info, dict) or not {"format", "digest", "annotators", "tasks"} <= info.keys():
        raise StorageError(f"{file} was not written by fdarx; give a folder of `fdarx review sample`")
    if info["format"] != FORMAT_VERSION:
        raise StorageError(f"{file} has format {info['format']}, this version reads {FORMAT_VERSION}; update fdarx")
    return Review(root, info)


def merge_annotations(rows: Iterable[Annotation]) -> list[Annotation]:
    """Merge annotations of the same item by the same annotator: equal values become one row, remarks are joined.

    Returns rows sorted by annotator and item. Raises StorageError where an annotator gave an item two values.
    """
    by_key: dict[tuple[str, str], list[Annotation]] = {}
    for row in rows:
        by_key.setdefault((row.annotator, row.item_id), []).append(row)
    merged: list[Annotation] = []
    for key in sorted(by_key):
        first, *others = by_key[key]
        if differing := sorted({row.value for row in others} - {first.value}):
            raise StorageError(
                f"{first.annotator} gave item {first.item_id} two values, {first.value!r} and {differing[0]!r}: two "
                "imports ran at the same time; remove one of the two files from annotations/"
            )
        remark = " / ".join(sorted({row.remark for row in by_key[key] if row.remark}))
        saw_decision, seconds = any(row.saw_decision for row in by_key[key]), min(row.seconds for row in by_key[key])
        merged.append(replace(first, remark=remark, saw_decision=saw_decision, seconds=seconds))
    return merged


def assign_items(items: Sequence[ReviewItem], annotators: Sequence[str], overlap: float) -> dict[str, list[ReviewItem]]:
    """Return items by annotator. All get the share `overlap` (0 to 1) of subjects; the rest are assigned in turn."""
    owner: dict[str, str] = {}
    for position, subject in enumerate(dict.fromkeys(item.subject for item in items)):
        is_shared = floor((position + 1) * overlap) > floor(position * overlap)  # every fourth if overlap is 0.25
        if not is_shared:
            owner[subject] = annotators[len(owner) % len(annotators)]
    return {name: [item for item in items if owner.get(item.subject, name) == name] for name in annotators}


def write_adjudication(review: Review, name: str, render_page: PageRenderer) -> int:
    """Write a page of the items whose annotations differ, with these, for `name`; return the number of items.

    Raises StorageError if no annotations differ, or if an annotator has this name.
    """
    items = review.disagreements()
    if name in review.info["annotators"]:
        raise StorageError(f"{name} is an annotator of {review.root}; give the adjudicator another name")
    if not items:
        raise StorageError(f"{review.root} has no items whose annotations differ")
    (review.root / f"{name}.html").write_text(render_page(review.info, items, name))
    adjudicators = dict.fromkeys([*review.info.get("adjudicators", ()), name])
    info = {**review.info, "adjudicators": list(adjudicators)}
    (review.root / INFO_FILE).write_text(json.dumps(info, indent=2, ensure_ascii=False) + "\n")
    return len(items)


def write_review(
    out: str,
    sample: ReviewSample,
    annotators: Sequence[str],
    versions: Mapping[str, str],
    render_page: PageRenderer,
    *,
    overlap: float = 1.0,
) -> Review:
    """Write the folder of a review, or add pages of further annotators where it holds the same sample already.

    `overlap` is the share of the subjects that all annotators get; the rest are assigned in turn. Raises RunConflict,
    and changes nothing, if the folder holds another review or other files, if its items are assigned to other
    annotators, or if an annotator is an adjudicator of the review.
    """
    root = Location(out)
    review = _existing_review(root, sample)
    if review is None:
        root.check_writable()
        write_items(root, sample)
        review = Review(root, {"format": FORMAT_VERSION, **sample.info, "annotators": []})
        new_annotators = list(annotators)
    else:
        new_annotators = [name for name in annotators if name not in review.info["annotators"]]
        assigned_overlap, known = review.info.get("overlap", 1.0), ", ".join(review.info["annotators"])
        if assigned_overlap != overlap or (new_annotators and overlap < 1):
            assigned = f"assigned to {known} with overlap {assigned_overlap:g}"
            raise RunConflict(f"the items of {review.root} are {assigned}; choose another --out")
        for name in new_annotators:
            if name in review.info.get("adjudicators", ()):
                raise RunConflict(f"{name} is an adjudicator of {review.root}; give the annotator another name")
    if not new_annotators:
        return review
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    names = [*review.info["annotators"], *new_annotators]
    info = {**review.info, "annotators": names, "overlap": overlap, "versions": dict(versions), "written": now}
    shares = assign_items(sample.items, names, overlap)
    for name in new_annotators:
        (root / f"{name}.html").write_text(render_page(info, [AnnotatedItem(item) for item in shares[name]], name))
    (root / INFO_FILE).write_text(json.dumps(info, indent=2, ensure_ascii=False) + "\n")
    return Review(root, info)


def _existing_review(root: Location, sample: ReviewSample) -> Review | None:
    if (root / INFO_FILE).exists():
        existing = open_review(str(root))
        if existing.digest == sample.info["digest"]:
            return existing
        differences = [
            f"{name}: was {json.dumps(existing.info.get(name))}, now {json.dumps(sample.info[name])}"
            for name in ("run", "n", "seed", "tasks", "models", "settings")
            if existing.info.get(name) != sample.info[name]
        ]
        reason = "; ".join(differences) or "the run was changed after sampling"
        raise RunConflict(f"{root} holds another review ({reason}); choose another --out")
    if not root.is_empty():
        raise RunConflict(f"{root} holds files but no {INFO_FILE}: it is no review; choose another --out or empty it")
    return None


def write_items(root: Location, sample: ReviewSample) -> None:
    """Write the items of a review as Parquet, as JSON lines, and as CSV to fill in."""
    digest = sample.info["digest"]
    write_records(root / "items.parquet", sample.items, ReviewItem)
    lines = (json.dumps({"review": digest, **asdict(item)}, ensure_ascii=False) + "\n" for item in sample.items)
    (root / "items.jsonl").write_text("".join(lines))
    text = io.StringIO(newline="")
    sheet = csv.DictWriter(text, SHEET_COLUMNS)
    sheet.writeheader()
    for item in sample.items:
        task = REVIEW_TASKS[item.task]
        row = {
            **{name: getattr(item, name) for name in SHEET_COLUMNS if hasattr(item, name)},
            "review": f"review-{digest}",
            "id": f"item-{item.id}",
            "asks": task.asks,
            "answer": item.answer if task.shows_answer else "",
            "choices": " | ".join(item.choices),
        }
        # Prevents a spreadsheet from running a cell as a formula. Source: OWASP, CSV injection.
        cells = {name: str(value) for name, value in row.items()}
        sheet.writerow({name: f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell for name, cell in cells.items()})
    (root / "items.csv").write_text("\ufeff" + text.getvalue())  # Excel misreads non-ASCII text without this mark
