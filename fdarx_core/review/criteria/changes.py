"""Criteria with changes made to them, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from textwrap import fill

import yaml
from pydantic import ValidationError

from fdarx_core.filters.criteria import GUIDED, judges_by
from fdarx_core.llm import Criteria, PromptError
from fdarx_core.llm.prompts import Criterion, explained
from fdarx_core.review.criteria.propose_criteria import Change

LONGEST = 1000
"""Characters of a rule: judges read all of them with each question."""
PROPOSED = "criteria.proposed.yaml"
_WIDTH = 120


class BadProposal(ValueError):
    """Changes that can't be made; the message names the change and says what is wrong with it."""


def changed(criteria: Criteria, changes: Sequence[Change]) -> Criteria:
    """The criteria after the changes, rules in their order and new ones last. Raises BadProposal."""
    rules = {rule.id: rule for rule in criteria.rules}
    touched: set[str] = set()
    for number, change in enumerate(changes, 1):
        where = f"change {number} ({change.action} {change.id})"
        if change.id in touched:
            raise BadProposal(f"{where}: an earlier change is to the same rule; make one of them")
        touched.add(change.id)
        _make(rules, change, where)
    made = Criteria(purpose=criteria.purpose, rules=list(rules.values()))
    if made == criteria:
        raise BadProposal("the changes leave every rule as it is")
    try:
        judges_by(made, PROPOSED)
    except PromptError as error:
        raise BadProposal(str(error)) from error
    return made


def _make(rules: dict[str, Criterion], change: Change, where: str) -> None:
    if (change.id in rules) == (change.action == "add"):
        known = "there is a rule of that id; change it" if change.id in rules else f"known rules are {', '.join(rules)}"
        raise BadProposal(f"{where}: {known}")
    if change.action == "remove":
        del rules[change.id]
        return
    if unread := sorted(set(change.applies_to) - GUIDED):
        raise BadProposal(f"{where}: applies_to names {unread}; tasks that read criteria are {sorted(GUIDED)}")
    applies_to = list(dict.fromkeys(change.applies_to)) or (rules[change.id].applies_to if change.id in rules else [])
    try:
        rules[change.id] = Criterion(id=change.id, text=_checked(change.text, where), applies_to=applies_to)
    except ValidationError as error:
        raise BadProposal(f"{where}: {explained(error)}") from error


def _checked(text: str, where: str) -> str:
    one_line = " ".join(text.split())
    if len(one_line) > LONGEST:
        raise BadProposal(f"{where}: the rule has {len(one_line)} characters; say it in {LONGEST} at most")
    if not one_line.isprintable():
        raise BadProposal(f"{where}: the rule holds characters that can't be seen; write it in plain text")
    return one_line


def as_yaml(criteria: Criteria) -> str:
    """The criteria in the layout of prompts/criteria.yaml; `Criteria.from_yaml` reads the same back."""
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
        text, _WIDTH, initial_indent=margin, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
    )
    return f">-\n{folded}"


def diff(old: Criteria, new: Criteria) -> str:
    """What differs, as a unified diff of both in the same layout."""
    before, after = (as_yaml(one).splitlines(keepends=True) for one in (old, new))
    return "".join(unified_diff(before, after, "criteria.yaml", PROPOSED))
