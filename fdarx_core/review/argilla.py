"""Argilla 2: the items of a review as datasets on disk that `rg.Dataset.from_disk` loads, and responses back.

Each task of a review is one dataset, because the labels of a question are the same for all records of a dataset.
Source: docs.argilla.io, "Importing and exporting datasets and records", and the models of `argilla` 2.8: the files of
`Dataset.to_disk`, and the columns of `Dataset.records.to_datasets`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.passages import EMPTY, passages_html, text_titles
from fdarx_core.review.review_set import Review
from fdarx_core.review.tasks import REVIEW_TASKS, ReviewTask
from fdarx_core.review.tool_annotations import MARK, REMARK, ToolAnnotations
from fdarx_core.storage import Location

_CONTEXT = "context"
_SHOWN, _HIDDEN = "shown", "hidden"
"""The values of the metadata `decision`."""
_STATES = {"discarded": "discarded", "draft": "drafts", "pending": "drafts"}
"""The statuses of responses that are no marks, with the words that count them."""


def export_argilla(review: Review, out: Location, *, show_decisions: bool = False) -> list[Location]:
    """Write a dataset, as `Dataset.to_disk` does, in the folder TASK for each task of a review.

    The judge's decisions are left out, because annotators who see them agree with them more often; with
    `show_decisions` they are suggestions.
    """
    written: list[Location] = []
    for name, items in review.items_by_task().items():
        records = [_record(item, review.digest, shows=show_decisions and bool(item.decision)) for item in items]
        settings = _settings(REVIEW_TASKS[name], _annotators(review))
        shared = {key: settings[key] for key in ("guidelines", "allow_extra_metadata", "distribution")}
        dataset = {"name": f"fdarx-{review.digest}-{name}", "status": "draft", **shared}
        folder = out / name
        for file, content in ((".argilla/settings", settings), (".argilla/dataset", dataset), ("records", records)):
            (folder / f"{file}.json").write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")
        written.append(folder)
    return written


def _annotators(review: Review) -> int:
    """Return how many annotators are to judge each item at least."""
    return len(review.info["annotators"]) if review.info.get("overlap", 1.0) == 1.0 else 1


def _settings(task: ReviewTask, annotators: int) -> dict[str, Any]:
    options = [{"value": value, "text": text, "description": None} for value, text in task.options.items()]
    label = {"type": "label_selection", "options": options, "visible_options": max(len(options), 3)}
    return {
        "guidelines": f"{task.asks}\n\n{task.guide}",
        "allow_extra_metadata": True,
        "distribution": {"strategy": "overlap", "min_submitted": annotators},
        "fields": [
            {"name": name, "title": title, "required": name == "question", "settings": _field(name)}
            for name, title in {**text_titles(task), _CONTEXT: task.shown}.items()
        ],
        "questions": [
            {"name": MARK, "title": task.asks, "description": task.guide, "required": True, "settings": label},
            {"name": REMARK, "title": "Remark", "required": False, "settings": {"type": "text", "use_markdown": False}},
        ],
        "metadata": [
            _property(name, name in ("drug", "type")) for name in ("review", "task", "drug", "type", "decision")
        ],
        "vectors": [],
        "mapping": None,
    }


def _field(name: str) -> dict[str, Any]:
    return {"type": "text", "use_markdown": name == _CONTEXT}


def _property(name: str, visible: bool) -> dict[str, Any]:
    settings = {"type": "terms", "values": None, "visible_for_annotators": visible}
    return {"name": name, "title": name, "settings": settings, "visible_for_annotators": visible}


def _record(item: ReviewItem, review: str, *, shows: bool) -> dict[str, Any]:
    texts = {name: getattr(item, name) or EMPTY for name in text_titles(REVIEW_TASKS[item.task])}
    metadata = {"review": review, "task": item.task, "drug": item.drug, "type": item.type}
    mark = {"value": item.decision, "score": None, "agent": item.judge or "judge"}
    return {
        "id": item.id,
        "fields": {**texts, _CONTEXT: passages_html(item)},
        "metadata": {name: value for name, value in metadata.items() if value}
        | {"decision": _SHOWN if shows else _HIDDEN},
        "suggestions": {MARK: mark} if shows else {},
        "responses": {},
        "vectors": {},
    }


def is_argilla(row: Mapping[str, Any]) -> bool:
    """Return whether a row of a file is a record of Argilla, by its keys: nested, or with a column for each part."""
    return {"fields", "responses"} <= row.keys() or f"{MARK}.responses" in row or {"_server_id", "review"} <= row.keys()


def read_argilla(file: str, rows: Sequence[Mapping[str, Any]], found: ToolAnnotations) -> None:
    """Add the responses of Argilla's records to `found`: `records.json` of `Dataset.to_disk`, or the rows of
    `Dataset.records.to_datasets`.

    Users are known by their ids. Drafts and discarded responses are counted; `to_disk` does not tell them from
    submitted ones. Raises ValueError for a record that `export_argilla` did not make.
    """
    for number, row in enumerate(rows, 1):
        place = f"{file}:{number}"
        metadata = row.get("metadata", row)
        if not isinstance(metadata, Mapping) or not metadata.get("review") or not row.get("id"):
            raise ValueError(f"{place}: not a record of `fdarx review export --to argilla`; export its dataset")
        responses = _responses(row)
        found.add_item(str(row["id"]), len(responses))
        about = {"review": metadata["review"], "id": row["id"], "task": metadata.get("task")}
        saw = metadata.get("decision") == _SHOWN
        for user, (said, state) in responses.items():
            values = {"value": said.get(MARK) or "", "remark": said.get(REMARK) or ""}
            found.add(place, [user], {**about, **values, "saw_decision": saw}, state=state)


def _responses(row: Mapping[str, Any]) -> dict[str, tuple[dict[str, Any], str]]:
    """Return the values by question and the state of each user's responses to a record."""
    said: dict[str, dict[str, Any]] = defaultdict(dict)
    states: dict[str, str] = {}
    for question in (MARK, REMARK):
        for user, value, status in _answers(row, question):
            said[user][question] = value
            states[user] = states.get(user) or _STATES.get(status or "", "")
    return {user: (values, states[user]) for user, values in said.items()}


def _answers(row: Mapping[str, Any], question: str) -> Iterator[tuple[str, Any, str | None]]:
    """Yield user, value and status of each response to a question."""
    if isinstance(row.get("responses"), Mapping):
        for one in row["responses"].get(question) or []:
            yield str(one.get("user_id")), one.get("value"), one.get("status")
        return
    column = f"{question}.responses"
    values, users = row.get(column) or [], row.get(f"{column}.users") or []
    statuses = row.get(f"{column}.status") or [None] * len(values)
    for value, user, status in zip(values, users, statuses, strict=True):
        yield str(user), value, status
