"""Readers' judgments of the service's answers as a review: each answer is an item, each judgment an annotation.

The judgments are lines that POST /v1/feedback has appended to the file of `fdarx serve --feedback`. The readers chose
the answers that they judged, so the items are no sample of all answers. The judge is the gate: its decision is `good`
where it found every statement of an answer supported, and none otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from fdarx_core.records import content_id
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.importing import ImportResult, import_annotations
from fdarx_core.review.items import ReviewSample, item_texts
from fdarx_core.review.review_set import FORMAT, INFO, Review, open_review, write_items
from fdarx_core.review.tasks import ANSWER_TASK, REVIEW_TASKS, SERVICE
from fdarx_core.storage import Location, RunConflict, StorageError
from fdarx_core.storage.tables import read_rows

ANONYMOUS = "reader"
"""The annotator of judgments without an API key."""
_REQUIRED = ("at", "verdict", "reply")


def is_feedback(file: str) -> bool:
    """Return whether a file has judgments of the service's answers, by its first line."""
    location = Location(file)
    if location.suffix.lower() != ".jsonl":
        return False
    try:
        row = json.loads(location.read_bytes().split(b"\n", 1)[0])
    except ValueError:
        return False
    return isinstance(row, dict) and {*_REQUIRED} <= row.keys()


def import_feedback(address: str, files: Sequence[str], versions: Mapping[str, str]) -> tuple[Review, ImportResult]:
    """Import files of judgments into the review at an address, which is made, or gets the new answers.

    Of several judgments of an answer by one annotator, the last counts; one that differs from an earlier import is
    left out, and a notice says so. Raises RunConflict where the address holds another review or other files, and
    StorageError for a line that is no judgment.
    """
    rows = [row for file in files for row in _read(file)]
    review = _with_items(Location(address), rows, versions)
    known = {(one.annotator, one.item_id): one.value for one in review.annotations()}
    last = {(_annotator(row), _item_id(row)): row for row in rows}
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


def _read(file: str) -> Iterator[dict[str, Any]]:
    for place, row, fault in read_rows(Location(file), ", ".join(_REQUIRED), blank=_REQUIRED):
        reply = row.get("reply")
        if fault or not isinstance(reply, dict) or row.get("verdict") not in REVIEW_TASKS[ANSWER_TASK].choices:
            raise StorageError(f"{place}: no judgment of an answer, as POST /v1/feedback stores it; remove the line")
        yield {"key": "", "remark": "", **row}


def _annotator(row: Mapping[str, Any]) -> str:
    return str(row["key"] or ANONYMOUS)


def _subject(row: Mapping[str, Any]) -> str:
    return content_id(row["reply"]["standalone_question"], row["reply"]["answer"])


def _item_id(row: Mapping[str, Any]) -> str:
    return content_id(ANSWER_TASK, _subject(row))


def _with_items(root: Location, rows: Sequence[Mapping[str, Any]], versions: Mapping[str, str]) -> Review:
    """Write the review with the items and annotators that it has and those of the judgments; return it."""
    existing = open_review(str(root)) if (root / INFO).exists() else None
    if existing.info.get("job") != SERVICE if existing else not root.is_empty():
        raise RunConflict(f"{root} is no review of feedback; give a new folder")
    before: Mapping[str, Any] = existing.info if existing else {}
    items = {item.id: item for item in existing.items()} if existing else {}
    for row in rows:
        items.setdefault(_item_id(row), _item(row))
    found = [*items.values()]
    info = {
        "format": FORMAT,
        "digest": before.get("digest") or content_id(*item_texts(found)),
        **dict.fromkeys(("run", "input"), ""),
        **dict.fromkeys(("n", "population", "subjects", "items"), len(found)),
        **dict.fromkeys(("models", "settings", "by", "strata"), ()),
        "job": SERVICE,
        "tasks": [ANSWER_TASK],
        "seed": 0,
        "overlap": 1.0,
        "versions": dict(versions),
        "annotators": [*dict.fromkeys([*before.get("annotators", []), *map(_annotator, rows)])],
        "adjudicators": before.get("adjudicators", []),
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    root.check_writable()
    write_items(root, ReviewSample(found, info))
    (root / INFO).write_text(json.dumps(info, indent=2, ensure_ascii=False) + "\n")
    return Review(root, info)


def _item(row: Mapping[str, Any]) -> ReviewItem:
    reply, task = row["reply"], REVIEW_TASKS[ANSWER_TASK]
    cited = [one for one in reply["passages"] if one["cited"]] or reply["passages"]
    first = cited[0] if cited else {"set_id": "", "drug": ""}
    gate = reply["gate"]
    # lines of earlier versions count uncited statements as undecided ones
    counts = {name: gate.get(name, 0) for name in ("supported", "unsupported", "undecided", "uncited")}
    unverified = counts["unsupported"] or counts["undecided"] or counts["uncited"]
    supported = counts["supported"] > 0 and not unverified and not reply["refused"]
    counts["dropped"] = len(gate["dropped"])
    texts = [f"[{one['n']}] {one['title']}: {one['section']}\n{one['text']}" for one in cited]
    return ReviewItem(
        id=_item_id(row),
        task=task.name,
        subject=_subject(row),
        set_id=first["set_id"],
        drug=first["drug"],
        type="",
        category="",
        question=reply["standalone_question"],
        answer=reply["answer"],
        choices=list(task.options),
        decision=task.positive if supported else "",
        because=", ".join(f"{count} {verdict}" for verdict, count in counts.items()),
        evidence=[one["text"] for one in cited],
        context="\n\n".join(texts),
        model=reply["model"],
        setting=" ".join((reply["strategy"], reply["retriever"])),
        judge="gate",
        stratum="all",
    )
