"""What to change in the criteria, by what people said of a judge's decisions. Source: FDARxBench §3.2, §B.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fdarx_core.llm import Reply, Task

Action = Literal["add", "change", "remove"]


class Change(Reply):
    """One rule to add, to reword or to take out, and why. A change without applies_to leaves that as it is."""

    action: Action
    id: str
    text: str
    applies_to: list[str]
    why: str


class ProposalReply(Reply):
    """The changes, none where nothing general is to be learned."""

    changes: list[Change]


def by_rules(slots: Mapping[str, Any]) -> ProposalReply:
    """None: rules can group what people said, which the table does, but word no criterion."""
    return ProposalReply(changes=[])


PROPOSE_CRITERIA = Task.load("propose_criteria", ProposalReply, by_rules)
