"""The artifact audit of a run of a build: the rows that it reads, and the figures that it writes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import Any

from fdarx_core.evaluation.artifact_audit import audit_artifacts
from fdarx_core.evaluation.artifact_reading import ReadingScores, reading_scores
from fdarx_core.evaluation.audit_questions import AuditedLabel
from fdarx_core.labels.drugs import words_of
from fdarx_core.records import Figure, Label, Passage, QuestionAnswer, content_id
from fdarx_core.storage import RunDirectory, read_records, read_table, write_records
from fdarx_core.storage.published import QUESTION_TYPES
from fdarx_core.storage.splits import TEST, Splits, drugs_of_labels

MOST_AUDITED = 50_000
"""Questions after which no further drug is audited. Those of all labels of DailyMed would take gigabytes of memory, and
the classifiers take at most 20,000."""


def audit_build(run: RunDirectory, splits: Splits, most: int = MOST_AUDITED) -> dict[str, Any]:
    """Audit the questions of the test split of a run, and write the figures as `metrics.parquet`.

    Args:
        run: the build.
        splits: its splits.
        most: the number of questions after which no further drug is audited.

    Returns:
        The audit as JSON values, for run.json. `note` says how many questions are audited where they are not all.

    Raises:
        StorageError: a part of the run can't be read.
    """
    labels, note = _audited_labels(run, splits, most)
    audit = audit_artifacts(_questions(run, labels), _labels(run, labels), scores=_scores(run, labels))
    write_records(run.file("metrics.parquet"), [*audit.figures, *audit.openings], Figure)
    return audit.summary() | {"note": note}


def effective_size(run: RunDirectory) -> dict[str, int]:
    """Return by type how many questions of a run are distinct: by drug, label topic and gold answer.

    Labels of one drug repeat each other, so that a benchmark of many questions may ask few things. Refusal questions,
    which have one gold answer, count by what they ask about.
    """
    drug_of = {set_id: drug or set_id for set_id, drug in drugs_of_labels(run)}
    found: dict[str, set[str]] = {kind: set() for kind in QUESTION_TYPES}
    for part in run.parts("questions"):
        for row in read_table(part, ["set_id", "type", "category", "answer", "entity"]).to_pylist():
            gold = " ".join(words_of(row["entity"] or row["answer"]))
            found[row["type"]].add(content_id(drug_of.get(row["set_id"], row["set_id"]), row["category"], gold))
    return {kind: len(distinct) for kind, distinct in found.items()}


def _audited_labels(run: RunDirectory, splits: Splits, most: int) -> tuple[set[str], str]:
    """Return the labels of the test split whose questions are audited, and a note where they are not all.

    Drugs are taken in the order of a hash, with all their labels, because most questions recur on labels of one drug.
    """
    asked = Counter[str]()
    for part in run.parts("questions"):
        asked.update(read_table(part, ["set_id"])["set_id"].to_pylist())
    drug_of = {set_id: drug or set_id for set_id, drug in drugs_of_labels(run) if splits.of(set_id) == TEST}
    of_drug = Counter[str]()
    for set_id, drug in drug_of.items():
        of_drug[drug] += asked[set_id]
    questions, chosen = 0, set[str]()
    for drug in sorted(of_drug, key=lambda one: content_id("audit", one)):
        if questions < most:
            questions += of_drug[drug]
            chosen.add(drug)
    note = ""
    if questions < of_drug.total():
        note = (
            f"the audit reads {questions:,} of {of_drug.total():,} questions, all those on {len(chosen):,} of "
            f"{len(of_drug):,} drugs, which a hash picks"
        )
    return {set_id for set_id, drug in drug_of.items() if drug in chosen}, note


def _questions(run: RunDirectory, labels: Collection[str]) -> Iterator[QuestionAnswer]:
    for part in run.parts("questions"):
        yield from (row for row in read_records(part, QuestionAnswer) if row.set_id in labels)


def _scores(run: RunDirectory, labels: Collection[str]) -> dict[str, ReadingScores]:
    """Return what the labels have of the words of their questions; one part of the run is in memory at a time."""
    found: dict[str, ReadingScores] = {}
    for at, part in enumerate(run.parts("questions")):
        asked = defaultdict(list)
        for row in read_records(part, QuestionAnswer):
            if row.set_id in labels:
                asked[row.set_id].append(row)
        texts = defaultdict(list)
        for passage in read_records(run.parts("passages")[at], Passage):
            if passage.set_id in asked:
                texts[passage.set_id].append(passage.text)
        for set_id, rows in asked.items():
            found |= reading_scores(rows, texts[set_id])
    return found


def _labels(run: RunDirectory, labels: Collection[str]) -> Iterator[AuditedLabel]:
    for part in run.parts("labels"):
        for label in read_records(part, Label):
            if label.set_id in labels:
                yield AuditedLabel(label.set_id, label.drug, [label.drug_name, *label.aliases], label.labeler)
