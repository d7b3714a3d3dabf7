"""A drawn sample as the folder of a review: rows for programs, a sheet to fill in, and a page for each annotator."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from fdarx_core.records.review import ReviewItem
from fdarx_core.review.items import FORMAT, INFO, Review, open_review
from fdarx_core.review.sampling import Drawn
from fdarx_core.review.sheet import inert
from fdarx_core.review.tasks import REVIEW_TASKS
from fdarx_core.storage import Location, RunConflict, write_records

Page = Callable[[Mapping[str, Any], Sequence[ReviewItem], str], str]
"""Draws an annotator's page from review.json, the items and the name."""

SHEET = (
    *("review", "id", "task", "asks", "drug", "set_id", "type", "question", "answer", "gold", "context", "choices"),
    *("annotator", "value", "remark"),
)
"""The columns of items.csv, those to fill in last. What would tell the judge's decision is not among them.

Ids are led by a word: a spreadsheet would take one of digits and an "e" for a number.
"""


def write_review(out: str, drawn: Drawn, annotators: Sequence[str], versions: Mapping[str, str], page: Page) -> Review:
    """Writes the folder; where the same sample stands there already, only the pages of annotators who join.

    Raises `RunConflict` where the folder holds another review or other files; nothing is changed then.
    """
    root = Location(out)
    there = _standing(root, drawn)
    joining = [name for name in annotators if there is None or name not in there.info["annotators"]]
    before: dict[str, Any] = dict(there.info) if there else {"format": FORMAT, **drawn.info, "annotators": []}
    info = {**before, "annotators": [*before["annotators"], *joining], "versions": dict(versions), "written": _now()}
    if there is None:
        root.check_writable()
        _write_items(root, drawn)
    for name in joining:
        (root / f"{name}.html").write_text(page(info, drawn.items, name))
    if joining:
        (root / INFO).write_text(json.dumps(info, indent=2, ensure_ascii=False) + "\n")
    return Review(root, info if joining else before)


def _standing(root: Location, drawn: Drawn) -> Review | None:
    if (root / INFO).exists():
        there = open_review(str(root))
        if there.digest == drawn.info["digest"]:
            return there
        changed = [
            f"{name}: was {json.dumps(there.info.get(name))}, now {json.dumps(drawn.info[name])}"
            for name in ("run", "n", "seed", "tasks", "models", "settings")
            if there.info.get(name) != drawn.info[name]
        ]
        told = "; ".join(changed) or "the run has changed since"
        raise RunConflict(f"{root} holds another review ({told}); choose another --out")
    if not root.is_empty():
        raise RunConflict(f"{root} holds files but no {INFO}, so it is no review; choose another --out or empty it")
    return None


def _write_items(root: Location, drawn: Drawn) -> None:
    write_records(root / "items.parquet", drawn.items, ReviewItem)
    lines = ({"review": drawn.info["digest"], **asdict(item)} for item in drawn.items)
    (root / "items.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    text = io.StringIO(newline="")
    sheet = csv.DictWriter(text, SHEET)
    sheet.writeheader()
    sheet.writerows(_row(item, drawn.info["digest"]) for item in drawn.items)
    (root / "items.csv").write_text("\ufeff" + text.getvalue())  # without the mark Excel misreads what is not ASCII


def _row(item: ReviewItem, digest: str) -> dict[str, str]:
    task = REVIEW_TASKS[item.task]
    shown = {name: getattr(item, name) for name in SHEET if hasattr(item, name)}
    answer = item.answer if task.answered else ""
    row = {
        **shown,
        "review": f"review-{digest}",
        "id": f"item-{item.id}",
        "asks": task.asks,
        "answer": answer,
        "choices": " | ".join(item.choices),
    }
    return {name: inert(str(value)) for name, value in row.items()}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
