"""The figures of a finished build for run.json: its audit, votes, unusable replies and the reasons for rejects."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, TypeAlias, get_args

import numpy as np
import pyarrow.compute as pc

from fdarx_core.evaluation.artifact_audit import AuditedLabel, audit_artifacts
from fdarx_core.filters.judges import group_votes
from fdarx_core.filters.label_excerpt import LabelExcerpts
from fdarx_core.filters.round_trip import STAGE as ROUND_TRIP
from fdarx_core.generation.candidates import NOTHING_TO_ASK
from fdarx_core.generation.candidates import STAGE as GENERATE
from fdarx_core.labels.drugs import words_of
from fdarx_core.llm.model_config import TokenCounter
from fdarx_core.pipeline.part_files import labels_of_part
from fdarx_core.records import Figure, JudgeVerdict, Label, QuestionAnswer, content_id
from fdarx_core.records.question_types import QUESTION_TYPES, RoundTripSetting
from fdarx_core.review.agreement_metrics import alpha, coincidences
from fdarx_core.storage import RunDirectory, read_records, read_table, write_records
from fdarx_core.storage.splits import TEST, Splits

MOST_AUDITED = 50_000
"""Questions after which no further drug is audited. Those of all labels of DailyMed would take gigabytes of memory, and
the classifiers take at most 20,000."""
"""The reasons for rejects that run.json has."""
_SELECTING = ("read", "identify", "select")
"""The stages that choose labels, of which most files of a bulk release are rejected on purpose."""
_NO_REPLY = "failed_request"
"""The reason of a request that has no reply; why it has none begins the detail, after the setting of an answer."""
_SETTING = f"^(?:{'|'.join(get_args(RoundTripSetting))}): "


def audit_build(run: RunDirectory, splits: Splits) -> dict[str, Any]:
    """Audit the questions of the test split of a run, and write the figures as `metrics.parquet`.

    Args:
        run: the build.
        splits: its splits.

    Returns:
        The audit as JSON values, for run.json. `note` says how many questions are audited where they are not all.

    Raises:
        StorageError: a part of the run can't be read.
    """
    audited, note = _audited_labels(run, splits)
    questions = (
        row for part in run.parts("questions") for row in read_records(part, QuestionAnswer) if row.set_id in audited
    )
    labels = (
        AuditedLabel(label.set_id, label.drug, [label.drug_name, *label.aliases], label.labeler)
        for part in run.parts("labels")
        for label in read_records(part, Label)
        if label.set_id in audited
    )
    audit = audit_artifacts(questions, labels)
    write_records(run.file("metrics.parquet"), audit.figures, Figure)
    return audit.summary() | {"note": note}


def _audited_labels(run: RunDirectory, splits: Splits) -> tuple[set[str], str]:
    """Return the labels of the test split whose questions are audited, and a note where they are not all.

    Drugs are taken in the order of a hash, with all their labels, because most questions recur on labels of one drug.
    """
    asked = Counter(set_id for (set_id,) in run.rows("questions", "set_id"))
    drug_of = {
        set_id: drug or set_id for set_id, drug in run.rows("labels", "set_id", "drug") if splits.of(set_id) == TEST
    }
    of_drug = Counter[str]()
    for set_id, drug in drug_of.items():
        of_drug[drug] += asked[set_id]
    questions, chosen = 0, set[str]()
    for drug in sorted(of_drug, key=lambda name: content_id("audit", name)):
        if questions < MOST_AUDITED:
            questions += of_drug[drug]
            chosen.add(drug)
    note = ""
    if questions < of_drug.total():
        note = (
            f"the audit reads {questions:,} of {of_drug.total():,} questions, all those on {len(chosen):,} of "
            f"{len(of_drug):,} drugs, which a hash picks"
        )
    return {set_id for set_id, drug in drug_of.items() if drug in chosen}, note


def effective_size(run: RunDirectory) -> dict[str, int]:
    """Return by type how many questions of a run are distinct: by drug, label topic and gold answer.

    Labels of one drug repeat each other, so that a benchmark of many questions may ask few things. Refusal questions,
    which have one gold answer, count by what they ask about.
    """
    drug_of = {set_id: drug or set_id for set_id, drug in run.rows("labels", "set_id", "drug")}
    found: dict[str, set[str]] = {kind: set() for kind in QUESTION_TYPES}
    for set_id, kind, category, answer, entity in run.rows(
        "questions", "set_id", "type", "category", "answer", "entity"
    ):
        gold = " ".join(words_of(entity or answer))
        found[kind].add(content_id(drug_of.get(set_id, set_id), category, gold))
    return {kind: len(distinct) for kind, distinct in found.items()}


def reject_reasons(run: RunDirectory) -> list[dict[str, Any]]:
    """Return the reasons of rejects with the numbers of their rows: the most frequent first, those of the selection of
    labels last; of equal ones in alphabetical order."""
    counted: Counter[tuple[str, str]] = Counter()
    for part in run.parts("rejects"):
        rows = read_table(part, ["stage", "reason"]).group_by(["stage", "reason"]).aggregate([([], "count_all")])
        for row in rows.to_pylist():
            counted[row["stage"], row["reason"]] += row["count_all"]
    found = sorted(counted.items(), key=lambda item: (item[0][0] in _SELECTING, -item[1], item[0]))
    return [{"stage": stage, "reason": reason, "rows": rows} for (stage, reason), rows in found]


def labels_that_exceed(run: RunDirectory, tokens: int, counter: TokenCounter) -> int:
    """Return the number of labels that are longer than the reader's context, of which it was shown a part."""
    parts = (labels_of_part(run, number) for number in range(len(run.parts("labels"))))
    labels = (passages for part in parts for _, passages in part.values())
    return sum(not LabelExcerpts(passages, tokens, counter).fits for passages in labels)


def count_unusable(run: RunDirectory) -> list[dict[str, Any]]:
    """Return for each stage at which models reply, in the order of the build, how many `replies` there are, how many
    are `unusable`, and the most frequent `reason`.

    A reply to a context is unusable where the context is rejected for it; one of a judge or of the round trip, where
    its verdict is unscored. A request without a reply has the reason of its failure, such as context_too_long.
    """
    replies, reasons = Counter[str](), defaultdict[str, Counter[str]](Counter)
    for stage, rows_in in run.rows("stages", "stage", "rows_in"):
        if stage == GENERATE:
            replies[GENERATE] += rows_in
    for row in _count_by_reason(run, "rejects", ["stage", "reason"]):
        if row["stage"] == GENERATE and row["reason"] != NOTHING_TO_ASK:
            reasons[GENERATE][row["reason"]] += row["count_all"]
    for row in _count_by_reason(run, "verdicts", ["stage", "outcome", "reason"]):
        replies[row["stage"]] += row["count_all"]
        if row["outcome"] == "unscored":
            reasons[row["stage"]][row["reason"]] += row["count_all"]
    counted = []
    for stage, number in replies.items():
        [(reason, _)] = reasons[stage].most_common(1) or [("", 0)]
        counted.append({"stage": stage, "replies": number, "unusable": reasons[stage].total(), "reason": reason})
    return counted


def _count_by_reason(run: RunDirectory, kind: str, columns: list[str]) -> list[dict[str, Any]]:
    """Return the numbers of rows of a kind by these columns, of which one is `reason`, part by part."""
    counted: list[dict[str, Any]] = []
    for part in run.parts(kind):
        table = read_table(part, [*columns, "detail"])
        failed = pc.replace_substring_regex(table["detail"], _SETTING, "")
        failure = pc.list_element(pc.split_pattern(pc.binary_join_element_wise(failed, "", ":"), ":"), 0)
        reasons = pc.if_else(pc.equal(table["reason"], _NO_REPLY), failure, table["reason"])
        table = table.set_column(table.column_names.index("reason"), "reason", reasons)
        counted += table.group_by(columns).aggregate([([], "count_all")]).to_pylist()
    return counted


VoteSplits: TypeAlias = Counter[tuple[str, int, int, int]]
"""The number of questions by stage and by how many of their votes are kept, dropped and unscored. Its size does not
depend on the number of questions."""


def split_votes(votes: Iterable[JudgeVerdict]) -> VoteSplits:
    """Count questions by the split of their votes; all votes on a question must be among the given ones."""
    splits: VoteSplits = Counter()
    for (_, stage), group in group_votes(votes).items():
        outcomes = Counter(vote.outcome for vote in group)
        splits[stage, outcomes["kept"], outcomes["dropped"], outcomes["unscored"]] += 1
    return splits


def split_build_votes(run: RunDirectory) -> VoteSplits:
    """Count the questions of a build by the split of their votes; the votes of one part are in memory at a time.

    The round trip has one verdict on a question, which nobody votes on.
    """
    splits: VoteSplits = Counter()
    for part in run.parts("verdicts"):
        splits.update(split_votes(vote for vote in read_records(part, JudgeVerdict) if vote.stage != ROUND_TRIP))
    return splits


def vote_agreement(splits: VoteSplits) -> list[dict[str, Any]]:
    """Return the agreement of each stage that has votes, in the order in which the stages were counted, for `run.json`.

    `votes` counts all votes, `unscored` those without a verdict, and `questions` the questions with two scored votes at
    least, over which the figures are. `unanimous` is the share of them (0 to 1) whose scored votes are equal, None
    where there are none. `alpha` is Krippendorff's α of the outcomes kept and dropped, None where all votes are equal.
    Source: Krippendorff 2011 for α.
    """
    found: list[dict[str, Any]] = []
    for stage in dict.fromkeys(stage for stage, *_ in splits):
        counts = [(*split, number) for (own, *split), number in splits.items() if own == stage]
        paired: Counter[tuple[int, int]] = Counter()
        for kept, dropped, _, number in counts:
            if kept + dropped > 1:
                paired[kept, dropped] += number
        questions, agreement = paired.total(), _alpha(paired) if paired else math.nan
        agreed = sum(number for split, number in paired.items() if 0 in split)
        found.append(
            {
                "stage": stage,
                "votes": sum(number * (kept + dropped + lost) for kept, dropped, lost, number in counts),
                "unscored": sum(number * lost for _, _, lost, number in counts),
                "questions": questions,
                "unanimous": agreed / questions if questions else None,
                "alpha": None if math.isnan(agreement) else agreement,
            }
        )
    return found


def _alpha(paired: Counter[tuple[int, int]]) -> float:
    """Return α from the number of questions by (votes to keep, votes to drop)."""
    most = max(map(sum, paired))
    votes = np.full((len(paired), most), np.nan)
    for row, (kept, dropped) in enumerate(paired):
        votes[row, : kept + dropped] = [0] * kept + [1] * dropped
    weights = np.array(list(paired.values()), dtype=np.float64)
    return float(alpha((coincidences(votes, 2) * weights[:, None, None]).sum(axis=0)))
