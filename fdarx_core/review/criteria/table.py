"""The table of rejections and remarks that a person fills in by hand, where no model proposes."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from io import StringIO

from pydantic import ValidationError

from fdarx_core.llm.prompts import explained
from fdarx_core.review.criteria.changes import BadProposal
from fdarx_core.review.criteria.propose_criteria import Change
from fdarx_core.review.criteria.remarks import CASES_SHOWN, Group, remarks
from fdarx_core.review.sheet import inert

FILLED_IN = ("action", "id", "text", "applies_to", "why")
"""Columns for the person: those of `Change`; a row without an action changes nothing."""
TOLD = ("task", "judge", "judge_said", "people_said", "criterion", "items", "questions", "remarks")
_SEPARATOR = " | "


def as_csv(groups: Iterable[Group]) -> str:
    """A row a group, with up to `CASES_SHOWN` of its questions, all of its remarks, and columns to fill in."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*TOLD, *FILLED_IN])
    for group in groups:
        questions = _SEPARATOR.join(f"[{one.item.id}] {one.item.question}" for one in group.cases[:CASES_SHOWN])
        said = _SEPARATOR.join(_counted(remark for one in group.cases for remark in remarks(one)))
        about = [group.task, group.judge, group.judge_said, group.people_said, group.criterion]
        writer.writerow(map(inert, [*about, str(len(group.cases)), questions, said, *("" for _ in FILLED_IN)]))
    return text.getvalue()


def is_filled_in(text: str) -> bool:
    """Whether a person has written into a table; one that is none of ours counts as such."""
    rows = csv.DictReader(StringIO(text.removeprefix("\ufeff")))
    ours = {*FILLED_IN} <= {*(rows.fieldnames or ())}
    return not ours or any((row[name] or "").strip() for row in rows for name in FILLED_IN)


def read_changes(text: str, file: str) -> list[Change]:
    """The changes that were filled in. `applies_to` is a list at spaces, commas or semicolons.

    Raises BadProposal, which names the file and the row as a spreadsheet numbers it.
    """
    rows = csv.DictReader(StringIO(text.removeprefix("\ufeff")))
    if missing := sorted({*FILLED_IN} - {*(rows.fieldnames or ())}):
        raise BadProposal(f"{file}: it has no columns {missing}; fill in the table that this job wrote, with commas")
    numbered = enumerate(rows, 2)
    return [_change(row, f"{file}, row {number}") for number, row in numbered if (row["action"] or "").strip()]


def _change(row: dict[str, str], where: str) -> Change:
    given = {name: (row[name] or "").strip() for name in FILLED_IN}
    names = given["applies_to"].replace(",", " ").replace(";", " ").split()
    try:
        return Change.model_validate({**given, "action": given["action"].lower(), "applies_to": names})
    except ValidationError as error:
        raise BadProposal(f"{where}: {explained(error)}") from error


def _counted(texts: Iterable[str]) -> list[str]:
    """Each text once, what was said most first; those said more often with how often."""
    return [f"{times} × {text}" if times > 1 else text for text, times in Counter(texts).most_common()]
