"""Label Studio: the items of a review as tasks to import with their labeling configuration, and annotations back.

Each task of a review is one project, because the choices of a configuration are the same for all tasks of a project.
Source: labelstud.io, "Label Studio JSON format of annotated tasks", "Import pre-annotated data", export formats JSON
and JSON_MIN, tags View, Header, Text, HyperText, Choices, Choice and TextArea.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.passages import EMPTY, passages_html, text_titles
from fdarx_core.review.review_set import Review
from fdarx_core.review.tasks import REVIEW_TASKS
from fdarx_core.review.tool_annotations import MARK, REMARK, ToolAnnotations
from fdarx_core.storage import Location

_CONTEXT = "context"


def label_studio_config(task: str) -> str:
    """Return the labeling configuration of a task, for the project's settings."""
    template = files(__package__).joinpath("label_studio.xml.j2").read_text("utf-8")
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    about = REVIEW_TASKS[task]
    return made.from_string(template).render(
        task=about, texts=text_titles(about), choices=MARK, remark=REMARK, context=_CONTEXT
    )


def export_label_studio(review: Review, out: Location, *, show_decisions: bool = False) -> list[Location]:
    """Write TASK.json (the tasks to import) and TASK.xml (the labeling configuration) for each task of a review.

    The judge's decisions are left out, because annotators who see them agree with them more often; with
    `show_decisions` they are predictions.
    """
    written: list[Location] = []
    for task, items in review.items_by_task().items():
        rows = [_task(item, review.digest, shows=show_decisions and bool(item.decision)) for item in items]
        (out / f"{task}.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
        (out / f"{task}.xml").write_text(label_studio_config(task))
        written += [out / f"{task}.json", out / f"{task}.xml"]
    return written


def _task(item: ReviewItem, review: str, *, shows: bool) -> dict[str, Any]:
    texts = {name: getattr(item, name) or EMPTY for name in text_titles(REVIEW_TASKS[item.task])}
    about = " · ".join(filter(None, (item.drug, item.drug and f"label {item.set_id}", item.type)))
    ids = {"review": review, "item": item.id, "task": item.task, "shows_decision": shows}
    mark = {"from_name": MARK, "to_name": _CONTEXT, "type": "choices", "value": {"choices": [item.decision]}}
    predictions = [{"model_version": item.judge or "judge", "result": [{"id": item.id, **mark}]}] if shows else []
    return {"data": {**ids, "about": about, **texts, _CONTEXT: passages_html(item)}, "predictions": predictions}


def is_label_studio(row: Mapping[str, Any]) -> bool:
    """Return whether a row of a file is a task of Label Studio, by its keys: of the export JSON, or of JSON_MIN."""
    return "annotations" in row or "annotation_id" in row or "data" in row


def read_label_studio(file: str, rows: Sequence[Mapping[str, Any]], found: ToolAnnotations) -> None:
    """Add the annotations of Label Studio's export JSON or JSON_MIN to `found`.

    A user is known by id, e-mail address, the part of it before the @, or first name. Skipped tasks are counted; the
    export JSON_MIN leaves them out itself. Raises ValueError for a task that `export_label_studio` did not make.
    """
    for number, row in enumerate(rows, 1):
        place = f"{file}:{number}"
        data = row.get("data", row)
        if not isinstance(data, Mapping) or not {"review", "item"} <= data.keys():
            raise ValueError(
                f"{place}: not a task of `fdarx review export`; export the project of its tasks as JSON or JSON_MIN"
            )
        annotations = list(_annotations(row))
        found.add_item(str(data["item"]), len(annotations))
        for user, mark, remark, seconds, state in annotations:
            about = {"review": data["review"], "id": data["item"], "task": data.get("task")}
            said = {"value": _text(mark), "remark": _text(remark), "seconds": seconds or 0.0}
            found.add(place, user, {**about, **said, "saw_decision": bool(data.get("shows_decision"))}, state=state)


def _annotations(row: Mapping[str, Any]) -> Iterator[tuple[list[Any], Any, Any, Any, str]]:
    """Yield user, mark, remark, seconds and state of each annotation of a task."""
    if "data" not in row:  # JSON_MIN: a row for each annotation, and for each task without any
        if row.get("annotation_id") is not None:
            yield [row.get("annotator")], row.get(MARK), row.get(REMARK), row.get("lead_time"), ""
        return
    for one in row.get("annotations") or []:
        values = {result.get("from_name"): result.get("value", {}) for result in one.get("result") or []}
        mark, remark = values.get(MARK, {}).get("choices"), values.get(REMARK, {}).get("text")
        state = "skipped" if one.get("was_cancelled") else ""
        yield _user(one.get("completed_by")), mark, remark, one.get("lead_time"), state


def _user(user: Any) -> list[Any]:
    return [user.get(name) for name in ("id", "email", "first_name")] if isinstance(user, Mapping) else [user]


def _text(value: Any) -> str:
    """Return a choice or a text as Label Studio exports it: a text, a list of texts, or an object with such a list."""
    if isinstance(value, Mapping):
        value = value.get("choices") or value.get("text")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " / ".join(_text(one) for one in value)
    return "" if value is None else str(value)
