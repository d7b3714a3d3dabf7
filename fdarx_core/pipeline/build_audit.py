"""The artifact audit of a run of a build: the rows that it reads, and the figures that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fdarx_core.evaluation.artifact_audit import audit_artifacts
from fdarx_core.evaluation.audit_questions import AuditedLabel
from fdarx_core.records import Figure, Label, QuestionAnswer
from fdarx_core.storage import RunDirectory, read_records, write_records


def audit_build(run: RunDirectory) -> dict[str, Any]:
    """Audit the questions of a run, and write the figures as `metrics.parquet`.

    Returns:
        The audit as JSON values, for run.json.

    Raises:
        StorageError: a part of the run can't be read.
    """
    audit = audit_artifacts(_questions(run), _labels(run))
    write_records(run.file("metrics.parquet"), [*audit.figures, *audit.openings], Figure)
    return audit.summary()


def _questions(run: RunDirectory) -> Iterator[QuestionAnswer]:
    return (row for part in run.parts("questions") for row in read_records(part, QuestionAnswer))


def _labels(run: RunDirectory) -> Iterator[AuditedLabel]:
    for part in run.parts("labels"):
        for label in read_records(part, Label):
            yield AuditedLabel(label.set_id, label.drug, [label.drug_name, *label.aliases], label.labeler)
