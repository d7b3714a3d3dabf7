"""Label Studio and Argilla 2: the items of a review as files that they import, and annotations back.

Each task of a review is one project or dataset, because its choices are the same for all items. Sources: labelstud.io,
"Label Studio JSON format of annotated tasks", "Import pre-annotated data", export formats JSON and JSON_MIN, tags View,
Header, Text, HyperText, Choices, Choice and TextArea; docs.argilla.io, "Importing and exporting datasets and records",
and the models of `argilla` 2.8: the files of `Dataset.to_disk`, which `rg.Dataset.from_disk` loads, and the columns of
`Dataset.records.to_datasets`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import yaml
from jinja2 import Environment, StrictUndefined

from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.review_set import Review
from fdarx_core.review.tasks import EMPTY, REVIEW_TASKS, ReviewTask, passages_html, text_titles
from fdarx_core.storage import Location

AnnotationTool = Literal["label-studio", "argilla"]
PlacedRow = tuple[str, dict[str, Any]]
"""A place (file:row) and a row as of a filled-in sheet."""

_MARK, _REMARK = "mark", "remark"
"""The names of the two questions of each item in every tool: the choice, and the free text."""
_CONTEXT = "context"
_SHOWN, _HIDDEN = "shown", "hidden"
"""The values of the metadata `decision` in Argilla."""
_STATES = {"discarded": "discarded", "draft": "drafts", "pending": "drafts"}
"""The statuses of Argilla's responses that are no marks, with the words that count them."""


def export_items(
    review: Review, tool: AnnotationTool, out: Location, *, show_decisions: bool = False
) -> list[Location]:
    """Write the items of each task of a review for a tool; return the files, or for Argilla the folders.

    For Label Studio these are TASK.json (the tasks to import) and TASK.xml (the labeling configuration), for Argilla a
    dataset in the folder TASK. The judge's decisions are left out, because annotators who see them agree with them more
    often; with `show_decisions` they are predictions or suggestions.
    """
    written: list[Location] = []
    # The number of annotators who mark each item.
    everybody = len(review.info["annotators"]) if review.info.get("overlap", 1.0) == 1.0 else 1
    items = review.items()
    for name in review.info["tasks"]:
        shown = [(item, show_decisions and bool(item.decision)) for item in items if item.task == name]
        if not shown:
            continue
        task, texts = REVIEW_TASKS[name], text_titles(REVIEW_TASKS[name])
        if tool == "argilla":
            settings = yaml.safe_load(_rendered("argilla_settings.yaml.j2", task, texts, everybody))
            shared = {key: settings[key] for key in ("guidelines", "allow_extra_metadata", "distribution")}
            dataset = {"name": f"fdarx-{review.digest}-{name}", "status": "draft", **shared}
            records = [_argilla_record(item, review.digest, shows) for item, shows in shown]
            contents = {".argilla/settings": settings, ".argilla/dataset": dataset, "records": records}
            folder = out / name
            written.append(folder)
        else:
            contents, folder = {name: [_studio_task(item, review.digest, shows) for item, shows in shown]}, out
            (out / f"{name}.xml").write_text(_rendered("label_studio.xml.j2", task, texts, everybody))
            written += [out / f"{name}.json", out / f"{name}.xml"]
        for file, content in contents.items():
            (folder / f"{file}.json").write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    return written


def _rendered(template: str, task: ReviewTask, texts: Mapping[str, str], everybody: int) -> str:
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = files(__package__).joinpath(template).read_text("utf-8")
    names = {"choices": _MARK, "remark": _REMARK, "context": _CONTEXT}
    return made.from_string(text).render(task=task, texts=texts, everybody=everybody, **names)


def _texts(item: ReviewItem) -> dict[str, str]:
    texts = {name: getattr(item, name) or EMPTY for name in text_titles(REVIEW_TASKS[item.task])}
    return {**texts, _CONTEXT: passages_html(item)}


def _studio_task(item: ReviewItem, review: str, shows: bool) -> dict[str, Any]:
    about = " · ".join(filter(None, (item.drug, item.drug and f"label {item.set_id}", item.type)))
    ids = {"review": review, "item": item.id, "task": item.task, "shows_decision": shows}
    mark = {"from_name": _MARK, "to_name": _CONTEXT, "type": "choices", "value": {"choices": [item.decision]}}
    predictions = [{"model_version": item.judge or "judge", "result": [{"id": item.id, **mark}]}] if shows else []
    return {"data": {**ids, "about": about, **_texts(item)}, "predictions": predictions}


def _argilla_record(item: ReviewItem, review: str, shows: bool) -> dict[str, Any]:
    known = {"drug": item.drug, "type": item.type}
    metadata = {"review": review, "task": item.task, **{name: value for name, value in known.items() if value}}
    mark = {"value": item.decision, "score": None, "agent": item.judge or "judge"}
    return {
        "id": item.id,
        "fields": _texts(item),
        "metadata": {**metadata, "decision": _SHOWN if shows else _HIDDEN},
        "suggestions": {_MARK: mark} if shows else {},
        "responses": {},
        "vectors": {},
    }


def tool_of(row: Mapping[str, Any]) -> AnnotationTool | None:
    """Return the tool whose task or record a row of a file is, by its keys; None for a row of another kind.

    Records of Argilla are nested, or have a column for each part; tasks of Label Studio are of its export JSON or of
    JSON_MIN.
    """
    if {"fields", "responses"} <= row.keys() or f"{_MARK}.responses" in row or {"_server_id", "review"} <= row.keys():
        return "argilla"
    return "label-studio" if {"annotations", "annotation_id", "data"} & row.keys() else None


Response: TypeAlias = tuple[list[Any], dict[str, Any], str]
"""Names and ids of a user; value, remark and more of an annotation; why it is no mark, "" for a submitted one."""


def read_tool_rows(
    file: str, rows: Sequence[Mapping[str, Any]], people: Sequence[str], users: Mapping[str, str]
) -> tuple[list[PlacedRow], str]:
    """Return the annotations of known annotators in rows that a tool exported, and a line that counts all others.

    In Label Studio a user is known by id, e-mail address, the part of it before the @, or first name; in Argilla by id.
    Skipped tasks, drafts and discarded responses are counted; JSON_MIN leaves out skipped tasks itself, and `to_disk`
    of Argilla does not tell drafts from submitted responses.

    Args:
        file: the name of the file, for messages.
        rows: its tasks or records.
        people: the annotators of the review.
        users: annotators by names or ids of the tool's users, "" for a user whose annotations are left out.

    Raises:
        ValueError: a row was not exported by `export_items`, or annotations are of users who are no annotators.
    """
    known = {name.casefold(): annotator for name, annotator in (*zip(people, people, strict=True), *users.items())}
    tool = tool_of(rows[0])
    found: list[PlacedRow] = []
    others, strangers, annotated = Counter[str](), Counter[str](), dict[str, bool]()
    for number, row in enumerate(rows, 1):
        place = f"{file}:{number}"
        about, responses = _read_row(place, row, tool)
        annotated[str(about["id"])] = annotated.get(str(about["id"]), False) or bool(responses)
        for user, said, state in responses:
            names = [str(name) for name in user if name not in (None, "")]
            tried = (*names, *(name.partition("@")[0] for name in names if "@" in name))
            annotator = next((known[name.casefold()] for name in tried if name.casefold() in known), None)
            if state:
                others[state] += 1
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


def _read_row(place: str, row: Mapping[str, Any], tool: AnnotationTool | None) -> tuple[dict[str, Any], list[Response]]:
    """Return the review, id and task of a row, with whether the decision was shown, and its annotations."""
    if tool == "argilla":
        data, item = row.get("metadata", row), row.get("id")
        if not isinstance(data, Mapping) or not data.get("review") or not item:
            raise ValueError(f"{place}: not a record of `fdarx review export --to argilla`; export its dataset")
        responses, saw = list(_argilla_responses(row)), data.get("decision") == _SHOWN
    else:
        data = row.get("data", row)
        if not isinstance(data, Mapping) or not {"review", "item"} <= data.keys():
            raise ValueError(
                f"{place}: not a task of `fdarx review export`; export the project of its tasks as JSON or JSON_MIN"
            )
        responses, saw, item = list(_studio_responses(row)), bool(data.get("shows_decision")), data["item"]
    return {"review": data["review"], "id": item, "task": data.get("task"), "saw_decision": saw}, responses


def _studio_responses(row: Mapping[str, Any]) -> Iterator[Response]:
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
        yield names, said, "skipped" if annotation.get("was_cancelled") else ""


def _text(value: Any) -> str:
    """Return a choice or a text as Label Studio exports it: a text, a list of texts, or an object with such a list."""
    if isinstance(value, Mapping):
        value = value.get("choices") or value.get("text")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " / ".join(_text(part) for part in value)
    return "" if value is None else str(value)


def _argilla_responses(row: Mapping[str, Any]) -> Iterator[Response]:
    said: dict[str, dict[str, Any]] = defaultdict(lambda: {"value": "", "remark": ""})
    states: dict[str, str] = {}
    for question, name in ((_MARK, "value"), (_REMARK, "remark")):
        if isinstance(row.get("responses"), Mapping):
            listed = row["responses"].get(question) or []
            marks = [(str(mark.get("user_id")), mark.get("value"), mark.get("status")) for mark in listed]
        else:
            column = f"{question}.responses"
            values, users = row.get(column) or [], row.get(f"{column}.users") or []
            statuses = row.get(f"{column}.status") or [None] * len(values)
            marks = list(zip(map(str, users), values, statuses, strict=True))
        for user, value, status in marks:
            said[user][name] = value or ""
            states[user] = states.get(user) or _STATES.get(status or "", "")
    for user, values in said.items():
        yield [user], values, states[user]
