"""Proposed changes to the criteria of the judges: what people disagreed with, and changes by a person or by a model."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from io import StringIO
from textwrap import fill
from typing import Annotated, Any, Literal, TypeAlias

import yaml
from pydantic import Field, ValidationError

from fdarx_core.filters.judges import criteria_readers, guided_tasks, judges, judges_by
from fdarx_core.llm import Criteria, CutTo, Name, Note, PromptError, Reply, Task
from fdarx_core.llm.prompts import Criterion, validation_message
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.agreement_metrics import AnnotatedItem, consensus
from fdarx_core.review.review_set import escape_formula
from fdarx_core.review.tasks import REVIEW_TASKS

PROPOSED_FILE = "criteria.proposed.yaml"
MAX_RULE_CHARS = 1000
"""The longest rule, in characters: judges read all rules with each question."""
MAX_EXAMPLES = 8
"""Items of a group that a model is shown: more repeat each other."""
CHANGE_COLUMNS = ("action", "id", "text", "applies_to", "why")
"""The columns that a person fills in: the fields of `CriterionChange`. A row without an action is no change."""
_GROUPED_BY = ("task", "judge", "judge_said", "people_said", "criterion")
CONTEXT_COLUMNS = (*_GROUPED_BY, "items", "questions", "remarks")
_SEPARATOR = " | "


class CriterionChange(Reply):
    """One rule to add, to reword or to take out, and why. A change without applies_to leaves that as it is."""

    action: Literal["add", "change", "remove"]
    id: Name
    text: Annotated[str, Field(max_length=2 * MAX_RULE_CHARS)]
    applies_to: Annotated[list[Name], Field(max_length=20)]
    why: Note


class ProposalReply(Reply):
    """The changes, none where nothing general is to be learned."""

    changes: Annotated[list[CriterionChange], CutTo(50)]


def propose_nothing(slots: Mapping[str, Any]) -> ProposalReply:
    """Return no change: rules can group what people said, as the table does, but cannot word a criterion."""
    return ProposalReply(changes=[])


PROPOSE_CRITERIA = Task.load("propose_criteria", ProposalReply, propose_nothing)
"""The task of a model that proposes changes. Source: FDARxBench §3.2, §B.3."""


DisagreementGroup: TypeAlias = tuple[dict[str, str], list[AnnotatedItem]]
"""Items on which people disagreed with the judge in the same way, or on which they remarked, by `_GROUPED_BY`.

`judge` is the task whose prompt judged them, "" where criteria do not bear on it. `people_said` is "" where people were
divided. `criterion` is the id of the rule that a remark names, else that the judge's reason names, else "".
"""


def guiding_task(item: ReviewItem) -> str:
    """Return the task whose criteria the judge of an item followed, "" for a judge without criteria."""
    stage = REVIEW_TASKS[item.task].stage
    judging = next((judge.by_type.get(item.type) for judge in judges() if judge.stage == stage), None)
    return judging.task.name if judging and judging.task.name in guided_tasks() else ""


def _ruling_task(item: ReviewItem) -> str:
    """Return the same, but "" for the category: the relevance prompt asks for it, without criteria for it."""
    return "" if item.task == "category" else guiding_task(item)


def group_disagreements(annotated: Iterable[AnnotatedItem], criteria: Criteria) -> list[DisagreementGroup]:
    """Group the disagreements and remarks, those that criteria bear on first, then by size."""
    ids = [rule.id for rule in criteria.rules]
    groups: dict[tuple[str, str, str, str, str], list[AnnotatedItem]] = defaultdict(list)
    for one in annotated:
        item, people = one.item, consensus(one.values)
        remarked = any(vote.remark for vote in one.annotations)
        if remarked or (people and item.decision and people != item.decision):
            key = (item.task, _ruling_task(item), item.decision, people, _named_criterion(one, ids))
            groups[key].append(one)

    def rank(key: tuple[str, str, str, str, str]) -> tuple[object, ...]:
        _, judge, judge_said, people_said, _ = key
        return not judge, people_said == judge_said, -len(groups[key]), key

    return [(dict(zip(_GROUPED_BY, key, strict=True)), groups[key]) for key in sorted(groups, key=rank)]


def _named_criterion(one: AnnotatedItem, ids: Sequence[str]) -> str:
    texts = [*(vote.remark for vote in one.annotations), one.item.because]
    return next((name for text in texts for name in ids if _names(text, name)), "")


def _names(text: str, name: str) -> bool:
    """Return whether a text names a rule. Ids that are plain words count in brackets only, as prompts write them."""
    if "_" in name:
        return re.search(rf"(?<![a-z_]){name}(?![a-z_])", text) is not None
    return re.search(rf"[\[(]([a-z_]+, )*{name}(, [a-z_]+)*[\])]", text) is not None


def item_remarks(one: AnnotatedItem) -> list[str]:
    """Return the distinct remarks on an item."""
    return list(dict.fromkeys(" ".join(vote.remark.split()) for vote in one.annotations if vote.remark.strip()))


def proposal_slots(annotated: Sequence[AnnotatedItem], criteria: Criteria) -> dict[str, Any]:
    """Return the slots of `PROPOSE_CRITERIA`, without what no criteria bear on."""
    counts: dict[tuple[str, str], list[bool]] = {}
    for one in annotated:
        judge, people = _ruling_task(one.item), consensus(one.values)
        if judge and people and one.item.decision:
            counts.setdefault((one.item.task, judge), []).append(people == one.item.decision)
    return {
        "rules": [rule.model_dump() for rule in criteria.rules],
        "readers": sorted(criteria_readers()),
        "standing": [
            {"task": task, "judge": judge, "judged": len(same), "agreed": sum(same)}
            for (task, judge), same in sorted(counts.items())
        ],
        "groups": [_group_slots(*group) for group in group_disagreements(annotated, criteria) if group[0]["judge"]],
    }


def _group_slots(about: dict[str, str], items: list[AnnotatedItem]) -> dict[str, Any]:
    examples = sorted(items, key=lambda one: not item_remarks(one))[:MAX_EXAMPLES]
    return {
        **about,
        "count": len(items),
        "cases": [
            {
                "question": one.item.question,
                "answer": one.item.answer,
                "because": one.item.because,
                "remarks": item_remarks(one),
            }
            for one in examples
        ],
    }


def groups_csv(groups: Iterable[DisagreementGroup]) -> str:
    """Return the table that a person fills in: a row a group, with some questions, all remarks, and empty columns."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*CONTEXT_COLUMNS, *CHANGE_COLUMNS])
    for about, items in groups:
        questions = _SEPARATOR.join(f"[{one.item.id}] {one.item.question}" for one in items[:MAX_EXAMPLES])
        counts = Counter(remark for one in items for remark in item_remarks(one)).most_common()
        remarks = _SEPARATOR.join(f"{times} × {remark}" if times > 1 else remark for remark, times in counts)
        row = [*about.values(), str(len(items)), questions, remarks, *("" for _ in CHANGE_COLUMNS)]
        writer.writerow(map(escape_formula, row))
    return text.getvalue()


def is_filled_in(text: str) -> bool:
    """Return whether a person has filled in a table. A table of another layout counts as filled in."""
    rows = csv.DictReader(StringIO(text.removeprefix("\ufeff")))
    known = {*CHANGE_COLUMNS} <= {*(rows.fieldnames or ())}
    return not known or any((row[name] or "").strip() for row in rows for name in CHANGE_COLUMNS)


def read_changes(text: str, file: str) -> list[CriterionChange]:
    """Read the changes of a filled-in table. `applies_to` is separated by spaces, commas or semicolons.

    Raises ValueError, which names the file and the row as a spreadsheet numbers it.
    """
    rows = csv.DictReader(StringIO(text.removeprefix("\ufeff")))
    if missing := sorted({*CHANGE_COLUMNS} - {*(rows.fieldnames or ())}):
        raise ValueError(f"{file}: it has no columns {missing}; fill in the table that this job wrote, with commas")
    numbered = enumerate(rows, 2)
    return [_change(row, f"{file}, row {number}") for number, row in numbered if (row["action"] or "").strip()]


def _change(row: dict[str, str], where: str) -> CriterionChange:
    cells = {name: (row[name] or "").strip() for name in CHANGE_COLUMNS}
    applies_to = cells["applies_to"].replace(",", " ").replace(";", " ").split()
    try:
        return CriterionChange.model_validate({**cells, "action": cells["action"].lower(), "applies_to": applies_to})
    except ValidationError as error:
        raise ValueError(f"{where}: {validation_message(error)}") from error


def apply_changes(criteria: Criteria, changes: Sequence[CriterionChange]) -> Criteria:
    """Return the criteria after the changes, rules in their order and new ones last. Raises ValueError."""
    rules = {rule.id: rule for rule in criteria.rules}
    changed: set[str] = set()
    for number, change in enumerate(changes, 1):
        where = f"change {number} ({change.action} {change.id})"
        if change.id in changed:
            raise ValueError(f"{where}: an earlier change is to the same rule; combine them")
        changed.add(change.id)
        _apply(rules, change, where)
    proposed = Criteria(purpose=criteria.purpose, rules=list(rules.values()))
    if proposed == criteria:
        raise ValueError("the changes leave every rule as it is")
    try:
        judges_by(proposed, PROPOSED_FILE)
    except PromptError as error:
        raise ValueError(str(error)) from error
    return proposed


def _apply(rules: dict[str, Criterion], change: CriterionChange, where: str) -> None:
    if (change.id in rules) == (change.action == "add"):
        known = "there is a rule of that id; change it" if change.id in rules else f"known rules are {', '.join(rules)}"
        raise ValueError(f"{where}: {known}")
    if change.action == "remove":
        del rules[change.id]
        return
    guided = criteria_readers()
    if unread := sorted(set(change.applies_to) - guided):
        raise ValueError(f"{where}: applies_to names {unread}; tasks that read criteria are {sorted(guided)}")
    text = " ".join(change.text.split())
    if len(text) > MAX_RULE_CHARS:
        raise ValueError(f"{where}: the rule has {len(text)} characters; shorten it to {MAX_RULE_CHARS} at most")
    if not text.isprintable():
        raise ValueError(f"{where}: the rule holds characters that can't be printed; write it in plain text")
    applies_to = list(dict.fromkeys(change.applies_to)) or (rules[change.id].applies_to if change.id in rules else [])
    try:
        rules[change.id] = Criterion(id=change.id, text=text, applies_to=applies_to)
    except ValidationError as error:
        raise ValueError(f"{where}: {validation_message(error)}") from error


def criteria_yaml(criteria: Criteria) -> str:
    """Return the criteria in the layout of prompts/criteria.yaml, which `Criteria.from_yaml` reads."""
    lines = [f"purpose: {_scalar(criteria.purpose, 2)}", "rules:"]
    for rule in criteria.rules:
        lines += [f"  - id: {rule.id}", f"    text: {_scalar(rule.text, 6)}"]
        lines.append(f"    applies_to: [{', '.join(rule.applies_to)}]")
    return "\n".join(lines) + "\n"


def _scalar(text: str, indent: int) -> str:
    if text != " ".join(text.split()) or not text.isprintable() or not text:
        quoted = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float("inf"))
        return str(quoted).strip()
    margin = " " * indent
    folded = fill(
        text, 120, initial_indent=margin, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
    )
    return f">-\n{folded}"


def criteria_diff(old: Criteria, new: Criteria) -> str:
    """Return a unified diff of both in the same layout."""
    before, after = (criteria_yaml(one).splitlines(keepends=True) for one in (old, new))
    return "".join(unified_diff(before, after, "criteria.yaml", PROPOSED_FILE))
