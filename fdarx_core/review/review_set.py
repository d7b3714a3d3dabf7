"""The folder of a review: what people are asked, their pages, and what they answered.

    REVIEW/review.json        what was drawn from which run, and how; written last
    REVIEW/items.parquet      the ReviewItem rows, in the order in which all annotators see them
    REVIEW/items.jsonl        the same, one line an item, with the judge's decision
    REVIEW/items.csv          the same to fill in on a spreadsheet, without the judge's decision
    REVIEW/ANNOTATOR.html     the page of one annotator
    REVIEW/annotations/ANNOTATOR-HASH.parquet   the Annotation rows of one import; no file is overwritten

`review.json` has overlap (the share of drawn subjects that all annotators get) and adjudicators, format, digest (the id
of the review: a hash of the items with their texts and decisions), run (its address), job, input (the digest of the
run's input), seed, n, tasks, annotators, models and settings (of an evaluation, [] for all), by (the keys of the
strata), population, subjects (drawn questions or predictions), items, strata (each with name, size, drawn, fraction),
versions, written.
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

FORMAT = 1
"""Raised when an earlier version would misread a newer layout."""
INFO = "review.json"

PageRenderer = Callable[[Mapping[str, Any], Sequence[AnnotatedItem], str], str]
"""Renders an annotator's page from review.json, the items, whose marks it shows, and the annotator's name."""

SHEET_COLUMNS = (
    *("review", "id", "task", "asks", "drug", "set_id", "type", "question", "answer", "statement", "gold", "context"),
    *("choices", "annotator", "value", "remark"),
)
"""The columns of items.csv, without those that would show the judge's decision.

Ids have a word in front: a spreadsheet would read an id of digits and an "e" as a number.
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
    def people(self) -> list[str]:
        """The names of the annotators and the adjudicators."""
        return [*self.info["annotators"], *self.info.get("adjudicators", ())]

    def shares(self) -> dict[str, list[ReviewItem]]:
        """Return the items of each annotator."""
        return share_items(self.items(), self.info["annotators"], self.info.get("overlap", 1.0))

    def disagreements(self) -> list[AnnotatedItem]:
        """Return the items whose marks differ, or are unsure, with all their marks."""
        marks = [mark for mark in self.annotations() if not mark.adjudicated]
        return [annotated for annotated in collect_votes(self.items(), marks) if annotated.differs]

    def adjudicated(self) -> set[str]:
        """Return the ids of the items with an adjudicated verdict."""
        return {mark.item_id for mark in self.annotations() if mark.adjudicated and mark.value != UNSURE}

    def annotations(self) -> list[Annotation]:
        """Return the imported annotations, one for each annotator and item, sorted by both."""
        files = [file for file in (self.root / "annotations").list() if file.suffix == ".parquet"]
        return merge_annotations(row for file in files for row in read_records(file, Annotation))


def open_review(address: str) -> Review:
    """Open the review at an address, on disk or s3://. Raises StorageError where there is none or it is damaged."""
    root = Location(address)
    file = root / INFO
    if not file.exists():
        raise StorageError(
            f"{address} is not a review: it has no {INFO}; give the folder that `fdarx review sample` wrote"
        )
    try:
        info = json.loads(file.read_bytes())
    except ValueError as error:
        raise StorageError(f"{file} is damaged ({error}); draw the sample again into another folder") from error
    if not isinstance(info, dict) or not {"format", "digest", "annotators", "tasks"} <= info.keys():
        raise StorageError(f"{file} was not written by fdarx; give a folder of `fdarx review sample`")
    if info["format"] != FORMAT:
        raise StorageError(f"{file} has format {info['format']}, this version reads {FORMAT}; update fdarx")
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


def share_items(items: Sequence[ReviewItem], annotators: Sequence[str], overlap: float) -> dict[str, list[ReviewItem]]:
    """Return the items of each annotator: a share `overlap` (0 to 1) of the subjects for all, the others in turn."""
    owner: dict[str, str] = {}
    for at, subject in enumerate(dict.fromkeys(item.subject for item in items)):
        if floor((at + 1) * overlap) == floor(at * overlap):
            owner[subject] = annotators[len(owner) % len(annotators)]
    return {name: [item for item in items if owner.get(item.subject, name) == name] for name in annotators}


def write_adjudication(review: Review, name: str, page: PageRenderer) -> int:
    """Write a page of the items whose marks differ, with the marks, for `name`; return the number of items.

    Raises StorageError where no marks differ, or where the name is an annotator's.
    """
    items = review.disagreements()
    if name in review.info["annotators"]:
        raise StorageError(f"{name} is an annotator of {review.root}; give the adjudicator another name")
    if not items:
        raise StorageError(f"{review.root} has no items whose marks differ")
    (review.root / f"{name}.html").write_text(page(review.info, items, name))
    adjudicators = dict.fromkeys([*review.info.get("adjudicators", ()), name])
    info = {**review.info, "adjudicators": list(adjudicators)}
    (review.root / INFO).write_text(json.dumps(info, indent=2, ensure_ascii=False) + "\n")
    return len(items)


def write_review(
    out: str,
    sample: ReviewSample,
    annotators: Sequence[str],
    versions: Mapping[str, str],
    page: PageRenderer,
    *,
    overlap: float = 1.0,
) -> Review:
    """Write the folder of a review, or add pages of further annotators where it holds the same sample already.

    `overlap` is the share of the subjects that all annotators get; the others are shared out. Raises RunConflict, and
    changes nothing, where the folder holds another review or other files, or where its items are shared out among
    others.
    """
    root = Location(out)
    existing = _existing_review(root, sample)
    joining = [name for name in annotators if existing is None or name not in existing.info["annotators"]]
    before: dict[str, Any] = dict(existing.info) if existing else {"format": FORMAT, **sample.info, "annotators": []}
    if existing and (before.get("overlap", 1.0) != overlap or (joining and overlap < 1)):
        shared = f"{before.get('overlap', 1.0):g} among {', '.join(before['annotators'])}"
        raise RunConflict(f"the items of {root} are shared out with overlap {shared}; choose another --out")
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    names = [*before["annotators"], *joining]
    info = {**before, "annotators": names, "overlap": overlap, "versions": dict(versions), "written": now}
    if existing is None:
        root.check_writable()
        write_items(root, sample)
    shares = share_items(sample.items, names, overlap)
    for name in joining:
        (root / f"{name}.html").write_text(page(info, [AnnotatedItem(item) for item in shares[name]], name))
    if joining:
        (root / INFO).write_text(json.dumps(info, indent=2, ensure_ascii=False) + "\n")
    return Review(root, info if joining else before)


def _existing_review(root: Location, sample: ReviewSample) -> Review | None:
    if (root / INFO).exists():
        existing = open_review(str(root))
        if existing.digest == sample.info["digest"]:
            return existing
        differences = [
            f"{name}: was {json.dumps(existing.info.get(name))}, now {json.dumps(sample.info[name])}"
            for name in ("run", "n", "seed", "tasks", "models", "settings")
            if existing.info.get(name) != sample.info[name]
        ]
        reason = "; ".join(differences) or "the run has changed since"
        raise RunConflict(f"{root} holds another review ({reason}); choose another --out")
    if not root.is_empty():
        raise RunConflict(f"{root} holds files but no {INFO}, so it is not a review; choose another --out or empty it")
    return None


def write_items(root: Location, sample: ReviewSample) -> None:
    """Write the items of a review for programs, for reading, and as a sheet to fill in."""
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
        # No spreadsheet may run a cell as a formula. Source: OWASP, CSV injection.
        cells = {name: str(value) for name, value in row.items()}
        sheet.writerow({name: f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell for name, cell in cells.items()})
    (root / "items.csv").write_text("\ufeff" + text.getvalue())  # Excel misreads non-ASCII text without this mark
