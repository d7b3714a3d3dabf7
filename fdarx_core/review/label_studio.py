"""Label Studio: the items of a review as tasks that it imports, and the annotations that it exports.

Each task of a review is one project, because its choices are the same for all items. Sources: labelstud.io, "Label
Studio JSON format of annotated tasks", "Import pre-annotated data", export formats JSON and JSON_MIN, tags View,
Header, Text, HyperText, Choices, Choice and TextArea.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeAlias

from jinja2 import Environment, StrictUndefined

from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.review_set import Review
from fdarx_core.review.tasks import EMPTY, REVIEW_TASKS, passages_html, text_titles
from fdarx_core.storage import Location

PlacedRow = tuple[str, dict[str, Any]]
"""A place (file:row) and a row as of a filled-in sheet."""

_MARK, _REMARK = "mark", "remark"
"""The names of the two questions of each item: the choice, and the free text."""
_CONTEXT = "context"


def export_items(review: Review, out: Location, *, show_decisions: bool = False) -> list[Location]:
    """Write TASK.json (the tasks to import) and TASK.xml (the labeling configuration) for each task of a review.

    The judge's decisions are left out, because annotators who see them agree with them more often; with
    `show_decisions` they are predictions. Returns the files.
    """
    written: list[Location] = []
    items = review.items()
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = made.from_string(files(__package__).joinpath("label_studio.xml.j2").read_text("utf-8"))
    names = {"choices": _MARK, "remark": _REMARK, "context": _CONTEXT}
    for name in review.info["tasks"]:
        shown = [item for item in items if item.task == name]
        if not shown:
            continue
        tasks = [_task(item, review.digest, show_decisions and bool(item.decision)) for item in shown]
        (out / f"{name}.json").write_text(json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
        task = REVIEW_TASKS[name]
        (out / f"{name}.xml").write_text(template.render(task=task, texts=text_titles(task), **names))
        written += [out / f"{name}.json", out / f"{name}.xml"]
    return written


def _task(item: ReviewItem, review: str, shows: bool) -> dict[str, Any]:
    about = " · ".join(filter(None, (item.drug, item.drug and f"label {item.set_id}", item.type)))
    ids = {"review": review, "item": item.id, "task": item.task, "shows_decision": shows}
    texts = {name: getattr(item, name) or EMPTY for name in text_titles(REVIEW_TASKS[item.task])}
    mark = {"from_name": _MARK, "to_name": _CONTEXT, "type": "choices", "value": {"choices": [item.decision]}}
    predictions = [{"model_version": item.judge or "judge", "result": [{"id": item.id, **mark}]}] if shows else []
    return {"data": {**ids, "about": about, **texts, _CONTEXT: passages_html(item)}, "predictions": predictions}


Response: TypeAlias = tuple[list[Any], dict[str, Any], bool]
"""Names and ids of a user; value, remark and seconds of an annotation; whether the user skipped the task."""


def read_tasks(
    file: str, rows: Sequence[Mapping[str, Any]], people: Sequence[str], users: Mapping[str, str]
) -> tuple[list[PlacedRow], str]:
    """Return the annotations of known annotators in tasks that were exported, and a line that counts all others.

    A user is known by id, e-mail address, the part of it before the @, or first name. Skipped tasks are counted;
    JSON_MIN leaves them out itself.

    Args:
        file: the name of the file, for messages.
        rows: its tasks.
        people: the annotators of the review.
        users: annotators by names or ids of users, "" for a user whose annotations are left out.

    Raises:
        ValueError: a row was not exported by `export_items`, or annotations are of users who are no annotators.
    """
    known = {name.casefold(): annotator for name, annotator in (*zip(people, people, strict=True), *users.items())}
    found: list[PlacedRow] = []
    others, strangers, annotated = Counter[str](), Counter[str](), dict[str, bool]()
    for number, row in enumerate(rows, 1):
        place = f"{file}:{number}"
        data = row.get("data", row)
        if not isinstance(data, Mapping) or not {"review", "item"} <= data.keys():
            raise ValueError(
                f"{place}: not a task of `fdarx review export`; export the project of its tasks as JSON or JSON_MIN"
            )
        about = {"review": data["review"], "id": data["item"], "task": data.get("task")}
        about["saw_decision"], responses = bool(data.get("shows_decision")), list(_responses(row))
        annotated[str(about["id"])] = annotated.get(str(about["id"]), False) or bool(responses)
        for user, said, skipped in responses:
            names = [str(name) for name in user if name not in (None, "")]
            tried = (*names, *(name.partition("@")[0] for name in names if "@" in name))
            annotator = next((known[name.casefold()] for name in tried if name.casefold() in known), None)
            if skipped:
                others["skipped"] += 1
            elif not said["value"] and not said["remark"]:
                others["without a mark"] += 1
            elif annotator is None:
                strangers[" / ".join(names) or "without a name"] += 1
            elif not annotator:
                others["of users whom --users leaves out"] += 1
            else:
                found.append((place, {**about, **said, "annotator": annotator}))
    if strangers:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(strangers.items()))
        raise ValueError(
            f"{file}: {strangers.total()} annotations are by users who are no annotators of the review "
            f"({', '.join(people)}): {listed}; name the annotator of each with --users USER=ANNOTATOR, or "
            "leave a user's annotations out with --users USER="
        )
    counted = "".join(f", {count} {reason}" for reason, count in sorted(others.items()))
    without = len(annotated) - sum(annotated.values())
    left = f"; {without} items have no annotation" if without else ""
    total = len(found) + others.total()
    return found, f"{file}: {total} annotations on {len(annotated)} items: {len(found)} read{counted}{left}"


def _responses(row: Mapping[str, Any]) -> Iterator[Response]:
    marks: list[tuple[Any, Any, Any, Mapping[str, Any]]] = []
    if "data" in row:
        for annotation in row.get("annotations") or []:
            values = {result.get("from_name"): result.get("value", {}) for result in annotation.get("result") or []}
            mark, remark = values.get(_MARK, {}).get("choices"), values.get(_REMARK, {}).get("text")
            marks.append((annotation.get("completed_by"), mark, remark, annotation))
    elif row.get("annotation_id") is not None:  # JSON_MIN: a row for each annotation, and for each task without any
        marks.append((row.get("annotator"), row.get(_MARK), row.get(_REMARK), row))
    for user, mark, remark, annotation in marks:
        names = [user.get(name) for name in ("id", "email", "first_name")] if isinstance(user, Mapping) else [user]
        said = {"value": _text(mark), "remark": _text(remark), "seconds": annotation.get("lead_time") or 0.0}
        yield names, said, bool(annotation.get("was_cancelled"))


def _text(value: Any) -> str:
    """Return a choice or a text as Label Studio exports it: a text, a list of texts, or an object with such a list."""
    if isinstance(value, Mapping):
        value = value.get("choices") or value.get("text")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " / ".join(_text(part) for part in value)
    return "" if value is None else str(value)
