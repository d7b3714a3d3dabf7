"""The artifact audit on the page of a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.report.names import PAGE_WORDS
from fdarx_core.report.retention import TYPE_NAMES
from fdarx_core.storage.dataset_card import AuditRow, audit_row

_METRICS = {
    "classifiers": ("refusal_", "type_"),
    "readers": ("reading_",),
    "wordings": ("one_sided_", "recurring"),
    "answers": ("answer_in_", "answer_from_", "answerable_"),
    "lengths": ("answer_words_",),
    "openings": ("openings_",),
}
"""How the names of the metrics of each table begin."""


@dataclass(frozen=True, slots=True)
class AuditTable:
    """A table of figures of the audit, with a note on how to read it. A row has whether the audit fails by it."""

    name: str
    title: str
    note: str
    rows: Sequence[tuple[AuditRow, bool]]


@dataclass(frozen=True, slots=True)
class AuditPanel:
    """The audit of a build: tables of the figures that are measured.

    `failed` are the messages on exceeded bounds. `note` says how many questions are audited, "" where it is all of
    them. `unmeasured` figures are left out, the first of them for `reason`. `openings` has for each type the most
    frequent first words with their shares.
    """

    failed: Sequence[str]
    tables: Sequence[AuditTable]
    note: str = ""
    unmeasured: int = 0
    reason: str = ""
    openings: Sequence[tuple[str, Sequence[tuple[str, str]]]] = field(default_factory=list)


def audit_panel(audit: Mapping[str, Any] | None) -> AuditPanel | None:
    """Return the panel of an audit as run.json has it; None for a run without one, or without a question."""
    if not audit or not audit["figures"]:
        return None
    tables = []
    for name, begins in _METRICS.items():
        rows = [(audit_row(one), one["failed"]) for one in audit["figures"] if one["metric"].startswith(begins)]
        if measured := [(row, failed) for row, failed in rows if row.value]:
            title, note = (PAGE_WORDS[table][name] for table in ("audit_titles", "audit_notes"))
            tables.append(AuditTable(name, title, note, measured))
    openings: dict[str, list[tuple[str, str]]] = {}
    for one in audit["openings"]:
        kind = one["keys"]["group"]
        openings.setdefault(TYPE_NAMES.get(kind, kind), []).append((one["name"], f"{one['value']:.1%}"))
    missing = [row.reason for row in map(audit_row, audit["figures"]) if not row.value]
    return AuditPanel(
        audit["failed"], tables, audit.get("note", ""), len(missing), (missing or [""])[0], list(openings.items())
    )
