"""The artifact audit of a run of a build: the rows that it reads, and the figures that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fdarx_core.evaluation.artifact_audit import audit_artifacts
from fdarx_core.evaluation.audit_questions import AuditedLabel
from fdarx_core.records import Figure, Label, QuestionAnswer
from fdarx_core.storage import RunDirectory, read_records, write_records
from fdarx_core.storage.splits import TEST, Splits


def audit_build(run: RunDirectory, splits: Splits) -> dict[str, Any]:
    """Audit the questions of the test split of a run, and write the figures as `metrics.parquet`.

    Returns:
        The audit as JSON values, for run.json.

    Raises:
        StorageError: a part of the run can't be read.
    """
    audit = audit_artifacts(_test_questions(run, splits), _labels(run))
    write_records(run.file("metrics.parquet"), [*audit.figures, *audit.openings], Figure)
    return audit.summary()


def _test_questions(run: RunDirectory, splits: Splits) -> Iterator[QuestionAnswer]:
    questions = (row for part in run.parts("questions") for row in read_records(part, QuestionAnswer))
    return (row for row in questions if splits.of(row.set_id) == TEST)


def _labels(run: RunDirectory) -> Iterator[AuditedLabel]:
    for part in run.parts("labels"):
        for label in read_records(part, Label):
            yield AuditedLabel(label.set_id, label.drug, [label.drug_name, *label.aliases], label.labeler)
