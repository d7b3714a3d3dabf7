"""Import of what people hand in, and export of their verdicts on claims as marked pairs for a verifier.

Annotators hand in JSON of the pages and of Label Studio, filled-in CSV sheets, and JSON lines. All files
are checked before anything is written, and no annotation is overwritten.

Readers' judgments of the service's answers are lines that POST /v1/feedback has appended to the file of `fdarx serve
--feedback`. They become a review: each answer is an item, each judgment an annotation. The readers chose the answers
that they judged, so the items are no sample of all answers. The judge is the gate: its decision is `good` where it
found every statement of an answer supported, and none otherwise.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from fdarx_core.evaluation.verifier_scores import MarkedPair, read_marked_pairs
from fdarx_core.records import content_id
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review.agreement_metrics import collect_votes, consensus
from fdarx_core.review.items import ReviewSample, item_texts
from fdarx_core.review.label_studio import PlacedRow, read_tasks
from fdarx_core.review.review_set import FORMAT_VERSION, INFO_FILE, Review, merge_annotations, open_review, write_items
from fdarx_core.review.tasks import ANSWER_TASK, CLAIM_TASK, REVIEW_TASKS, SERVICE, UNSURE
from fdarx_core.storage import Location, RunConflict, StorageError, write_records
from fdarx_core.storage.tables import read_rows


def marked_pairs(review: Review) -> list[MarkedPair]:
    """Return the claims of a review on which people have a verdict, each with all its passages as one text.

    The verdict is the adjudicated one, or that of the majority. Raises StorageError where there is none.
    """
    items = [item for item in review.items() if item.task == CLAIM_TASK]
    votes = [vote for vote in review.annotations() if vote.task == CLAIM_TASK]
    source = f"review-{review.digest}"
    found = [
        MarkedPair("\n\n".join(claim.item.evidence), claim.item.statement, verdict, source, claim.item.drug)
        for claim in collect_votes(items, votes)
        if claim.item.evidence and (verdict := consensus(claim.values))
    ]
    if not found:
        raise StorageError(f"{review.root} has no claims with passages on which people have a verdict")
    return found


def read_pairs(places: Iterable[str]) -> list[MarkedPair]:
    """Return the marked pairs of files and of the folders of reviews. Raises StorageError for those without pairs."""
    return [
        pair
        for root in map(Location, places)
        for pair in (marked_pairs(open_review(str(root))) if (root / INFO_FILE).exists() else read_marked_pairs(root))
    ]


def export_pairs(review: Review, out: Location) -> int:
    """Write `marked_pairs` as JSON lines, as `fdarx verify --pairs` reads them; return their number."""
    pairs = marked_pairs(review)
    rows = [
        {"statement": pair.statement, "text": pair.text, "gold": pair.mark, "source": pair.source, "drug": pair.drug}
        for pair in pairs
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
    """Import files of annotators' pages and of Label Studio (.json), and filled-in items (.csv, .jsonl).

    `users` maps ids or addresses of Label Studio's users to annotators, "" for users whose annotations are left out. An
    item without a value counts as unanswered. Raises ValueError for rows of another review, for an annotator, item or
    value that the review does not have (the message counts the rows and quotes the first of them), and for an annotator
    who gives an item two values, in these files or an earlier import; StorageError for a file that can't be read. In
    all cases nothing is written.
    """
    items = {item.id: item for item in review.items()}
    result = ImportResult()
    new: dict[str, list[Annotation]] = defaultdict(list)
    known = {(row.annotator, row.item_id): row for row in review.annotations()}
    for file in files:
        for place, row in _checked_rows(review, items, file, result.notices, users or {}):
            key = (row.annotator, row.item_id)
            before = known.get(key)
            if before is not None and before.value != row.value:
                raise ValueError(
                    f"{place}: {row.annotator} gives item {row.item_id} the value {row.value!r}, but {before.value!r} "
                    "was handed in before; nothing is overwritten: ask the annotator which is right, and hand in that "
                    "file alone"
                )
            if before is None or row.remark not in before.remark:
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
    active = {annotator for annotator, _ in known}
    for name, share in sorted(review.items_by_annotator().items()):
        done = sum((name, item.id) in known for item in share)
        if name in active and done < len(share):
            result.notices.append(f"{name}: {done} of {len(share)} items are answered, {len(share) - done} are left")
    return result


def _checked_rows(
    review: Review, items: Mapping[str, ReviewItem], file: str, notices: list[str], users: Mapping[str, str]
) -> list[tuple[str, Annotation]]:
    """Return the annotations of a file that have a value, each with its place.

    Rows of a sheet without any entry are skipped, and what Label Studio hands back is counted in a line of
    `notices`. Raises StorageError for a file that can't be read, is empty or has another suffix, and for a row that is
    not an object or lacks a required column; ValueError where rows can't be imported, with their number and the first
    of them.
    """
    location = Location(file)
    if location.suffix.lower() not in SUFFIXES:
        raise StorageError(f"{file} is not .json, .csv or .jsonl; give a file that a page saved, or a filled-in sheet")
    if not location.read_bytes().strip():
        raise StorageError(f"{file} is empty; give a file that a page saved, or a filled-in sheet")
    rows = list(_file_rows(location, review.reviewers, users, notices))
    if not rows:
        notices.append(f"{file}: nothing is filled in")
    checked: list[tuple[str, Annotation]] = []
    faults: list[str] = []
    for place, row in rows:
        try:
            checked.append((place, _annotation(review, items, place, row)))
        except ValueError as error:
            faults.append(str(error))
    if faults:
        more = f". {len(faults) - 1} further rows of {file} can't be imported either" if len(faults) > 1 else ""
        raise ValueError(f"{faults[0]}{more}; nothing was imported")
    if without_value := [row.item_id for _, row in checked if row.remark and not row.value]:
        listed = ", ".join(without_value[:_MAX_LISTED]) + (" …" if len(without_value) > _MAX_LISTED else "")
        notices.append(
            f"{file}: {len(without_value)} remarks are on items without a value ({listed}) and are left out; give "
            "these items a value to keep the remarks"
        )
    return [(place, row) for place, row in checked if row.value]


def _file_rows(
    location: Location, people: Sequence[str], users: Mapping[str, str], notices: list[str]
) -> Iterable[PlacedRow]:
    if location.suffix.lower() != ".json":
        return _sheet_rows(location)
    try:
        content = json.loads(location.read_text())
    except ValueError as error:
        raise StorageError(f"{location} is not JSON ({error}); save it again from the page") from error
    if not isinstance(content, list) or not content:
        return _page_rows(location, content if isinstance(content, dict) else {})
    tasks = [row if isinstance(row, dict) else {} for row in content]
    found, counts = read_tasks(location.name, tasks, people, users)
    notices.append(counts)
    return found


def _page_rows(location: Location, saved: Mapping[str, Any]) -> list[PlacedRow]:
    answers = saved.get("answers")
    if not isinstance(answers, list) or not all(isinstance(row, dict) for row in answers):
        raise StorageError(f"{location} was not saved by an annotator's page: it has no list of answers")
    if (found := saved.get("format")) != FORMAT_VERSION:
        raise StorageError(f"{location} has format {found}, this version reads {FORMAT_VERSION}; update fdarx")
    shared = {"review": saved.get("review"), "annotator": saved.get("annotator")}
    return [(f"{location.name}:{number}", {**row, **shared}) for number, row in enumerate(answers, 1)]


def _sheet_rows(location: Location) -> list[PlacedRow]:
    sheet: list[PlacedRow] = []
    for line in read_rows(location, ", ".join(_REQUIRED), blank=_REQUIRED):
        if line.fault:
            raise StorageError(f"{line.place}: {line.fault}; give one line per item, as in items.jsonl")
        if any(_text(line.row.get(name)) for name in _FILLED_IN):
            sheet.append((line.place, line.row))
    return sheet


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _annotation(review: Review, items: Mapping[str, ReviewItem], place: str, row: Mapping[str, Any]) -> Annotation:
    """Return the annotation of a row, with the value that its text stands for, "" for none. Raises ValueError.

    Case is ignored, and the text of a choice stands for it; for up to three choices, so do a, b and c.
    """
    if missing := [name for name in _REQUIRED if name not in row]:
        raise StorageError(f"{place} lacks {', '.join(missing)}; keep the columns of items.csv, with commas")
    seconds = 0.0 if row.get("seconds") is None else row["seconds"]
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise StorageError(f"{place}: seconds is {seconds!r}, not a duration; hand in the file as it was saved")
    review_id, annotator, written = (_text(row[name]) for name in ("review", "annotator", "value"))
    item_id, review_id = _text(row["id"]).removeprefix("item-"), review_id.removeprefix("review-")
    if review_id != review.digest:
        what = f"of review {review_id!r}" if review_id else "without a review's id"
        raise ValueError(f"{place}: the row is {what}, this is {review.digest}; import it into its own review")
    if annotator not in review.reviewers:
        raise ValueError(
            f"{place}: there is no annotator {annotator!r}; known are {', '.join(review.reviewers)}. To add one, run "
            "`fdarx review sample` with the same options and the name in --annotators"
        )
    if item_id not in items:
        raise ValueError(
            f"{place}: the review has no item {item_id!r}; ids have 16 hexadecimal digits, see {review.root}/items.csv"
        )
    item = items[item_id]
    verdicts = [choice for choice in item.choices if choice != UNSURE]
    letters = dict(zip(_LETTERS, verdicts, strict=False)) if len(verdicts) <= len(_LETTERS) else {}
    texts = {text.casefold(): value for value, text in REVIEW_TASKS[item.task].options.items()}
    values = {"": "", **letters, **texts, **{choice.casefold(): choice for choice in item.choices}}
    value = values.get(written.casefold())
    if value is None:
        raise ValueError(
            f"{place}: {written!r} is not a value of item {item.id} ({item.task}); give one of "
            f"{', '.join(item.choices)}, or leave it empty"
        )
    return Annotation(
        item_id=item_id,
        annotator=annotator,
        task=item.task,
        value=value,
        remark=_text(row.get("remark")),
        saw_decision=row.get("saw_decision") is True,
        seconds=float(seconds),
        adjudicated=annotator in review.info.get("adjudicators", ()),
    )


ANONYMOUS = "reader"
"""The annotator of judgments without an API key."""
_JUDGMENT_KEYS = ("at", "verdict", "reply")


def is_feedback(file: str) -> bool:
    """Return whether a file has judgments of the service's answers, by its first line."""
    location = Location(file)
    if location.suffix.lower() != ".jsonl":
        return False
    try:
        row = json.loads(location.read_bytes().split(b"\n", 1)[0])
    except ValueError:
        return False
    return isinstance(row, dict) and {*_JUDGMENT_KEYS} <= row.keys()


def import_feedback(address: str, files: Sequence[str], versions: Mapping[str, str]) -> tuple[Review, ImportResult]:
    """Import files of judgments into the review at an address, which is made, or gets the new answers.

    Of several judgments of an answer by one annotator, the last counts; one that differs from an earlier import is
    left out, and a notice says so. Raises RunConflict where the address holds another review or other files, and
    StorageError for a line that is no judgment.
    """
    choices = REVIEW_TASKS[ANSWER_TASK].choices
    rows: list[dict[str, Any]] = []
    items: list[ReviewItem] = []
    for file in files:
        for line in read_rows(Location(file), ", ".join(_JUDGMENT_KEYS), blank=_JUDGMENT_KEYS):
            try:
                items.append(_judged_answer(line.row))
                known_verdict = line.row["verdict"] in choices
            except (KeyError, TypeError, AttributeError):  # a field is missing, or of another kind
                known_verdict = False
            if not known_verdict:
                raise StorageError(
                    f"{line.place}: no judgment of an answer, as POST /v1/feedback stores it; remove the line"
                )
            rows.append({"remark": "", **line.row, "key": str(line.row.get("key") or ANONYMOUS)})
    review = _with_items(Location(address), items, [row["key"] for row in rows], versions)
    known = {(annotation.annotator, annotation.item_id): annotation.value for annotation in review.annotations()}
    last = {(row["key"], item.id): row for row, item in zip(rows, items, strict=True)}
    changed = sum(known.get(key, row["verdict"]) != row["verdict"] for key, row in last.items())
    lines = [
        {"review": review.digest, "id": item, "annotator": name, "value": row["verdict"], "remark": row["remark"]}
        for (name, item), row in last.items()
        if known.get((name, item), row["verdict"]) == row["verdict"]
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    sheet = review.root / f"feedback-{content_id(text)}.jsonl"
    sheet.write_text(text)
    result = import_annotations(review, [str(sheet)]) if lines else ImportResult()
    if changed:
        result.notices.append(f"{changed} judgments differ from those of an earlier import, which stay")
    return review, result


def _with_items(
    root: Location, added: Sequence[ReviewItem], people: Sequence[str], versions: Mapping[str, str]
) -> Review:
    """Write the review with the items and annotators that it has and those of the judgments; return it."""
    existing = open_review(str(root)) if (root / INFO_FILE).exists() else None
    if existing.info.get("job") != SERVICE if existing else not root.is_empty():
        raise RunConflict(f"{root} is no review of feedback; give a new folder")
    before: Mapping[str, Any] = existing.info if existing else {}
    items = {item.id: item for item in existing.items()} if existing else {}
    for item in added:
        items.setdefault(item.id, item)
    found = [*items.values()]
    info = {
        "format": FORMAT_VERSION,
        "digest": before.get("digest") or content_id(*item_texts(found)),
        **dict.fromkeys(("run", "input"), ""),
        **dict.fromkeys(("n", "population", "subjects", "items"), len(found)),
        **dict.fromkeys(("models", "settings", "by", "strata"), ()),
        "job": SERVICE,
        "tasks": [ANSWER_TASK],
        "seed": 0,
        "overlap": 1.0,
        "versions": dict(versions),
        "annotators": [*dict.fromkeys([*before.get("annotators", []), *people])],
        "adjudicators": before.get("adjudicators", []),
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    root.check_writable()
    write_items(root, ReviewSample(found, info))
    (root / INFO_FILE).write_text(json.dumps(info, indent=2, ensure_ascii=False) + "\n")
    return Review(root, info)


def _judged_answer(row: Mapping[str, Any]) -> ReviewItem:
    reply, task = row["reply"], REVIEW_TASKS[ANSWER_TASK]
    subject = content_id(reply["standalone_question"], reply["answer"])
    cited = [passage for passage in reply["passages"] if passage["cited"]] or reply["passages"]
    first = cited[0] if cited else {"set_id": "", "drug": ""}
    gate = reply["gate"]
    counts = {name: gate.get(name, 0) for name in ("supported", "unsupported", "undecided", "uncited")}
    unverified = counts["unsupported"] or counts["undecided"] or counts["uncited"]
    supported = counts["supported"] > 0 and not unverified and not reply["refused"]
    counts["dropped"] = len(gate.get("dropped", ()))
    texts = [f"[{shown['n']}] {shown['title']}: {shown['section']}\n{shown['text']}" for shown in cited]
    return ReviewItem(
        id=content_id(ANSWER_TASK, subject),
        task=task.name,
        subject=subject,
        set_id=first["set_id"],
        drug=first["drug"],
        type="",
        category="",
        question=reply["standalone_question"],
        answer=reply["answer"],
        choices=list(task.options),
        decision=task.positive if supported else "",
        because=", ".join(f"{count} {verdict}" for verdict, count in counts.items()),
        evidence=[passage["text"] for passage in cited],
        context="\n\n".join(texts),
        model=reply["model"],
        setting=" ".join((reply["strategy"], reply["retriever"])),
        judge="gate",
        stratum="all",
    )
