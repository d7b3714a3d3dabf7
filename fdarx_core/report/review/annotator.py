"""The page on which one annotator judges: one HTML file that opens from disk and loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fdarx_core.records.review import ReviewItem
from fdarx_core.report.environment import environment
from fdarx_core.report.evaluation.wording import GROUP_NAMES
from fdarx_core.report.review.pieces import pieces_of
from fdarx_core.report.review.wording import GUIDES, SHOWN, SHOWN_BESIDE
from fdarx_core.review.tasks import REVIEW_TASKS


def annotator_page(info: Mapping[str, Any], items: Sequence[ReviewItem], annotator: str) -> str:
    """The page; `info` is the review's review.json. The decisions stand in the file, out of sight until asked for."""
    texts: dict[str, int] = {}
    payload = {
        "review": info["digest"],
        "annotator": annotator,
        "file": f"review-{info['digest']}-{annotator}.json",
        "tasks": {name: _task(name) for name in info["tasks"]},
        "items": [_item(item, texts) for item in items],
        "texts": list(texts),
    }
    return environment().get_template("review.html.j2").render(info=info, annotator=annotator, payload=payload)


def _task(name: str) -> dict[str, Any]:
    task = REVIEW_TASKS[name]
    return {
        "asks": task.asks,
        "guide": GUIDES[name],
        "shown": SHOWN_BESIDE.get(name, SHOWN),
        "choices": [list(pair) for pair in task.choices.items()],
    }


def _item(item: ReviewItem, texts: dict[str, int]) -> dict[str, Any]:
    """Passages recur from item to item: each text stands once, and `context` names its place."""
    return {
        "id": item.id,
        "task": item.task,
        "about": [item.drug, f"label {item.set_id}", GROUP_NAMES.get(item.type, item.type).lower()],
        "question": item.question,
        "answer": item.answer if REVIEW_TASKS[item.task].answered else None,
        "gold": item.gold,
        "context": [[kind, texts.setdefault(text, len(texts))] for kind, text in pieces_of(item)],
        "decision": item.decision,
        "because": item.because,
        "judge": " · ".join(filter(None, (item.judge and f"judge {item.judge}", item.model, item.setting))),
    }
