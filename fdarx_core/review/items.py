"""The items of a review: the sample drawn from a run, what annotators are shown, and what the judge decided."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.filters.judges import judges, majorities
from fdarx_core.records import (
    CheckedAnswer,
    Claim,
    ClaimVerdict,
    Evidence,
    Grade,
    JudgeVerdict,
    Label,
    PairVerdict,
    Passage,
    Prediction,
    QuestionAnswer,
    SafetyFlag,
    content_id,
)
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.sampling import (
    STRATIFY_ANSWERS_BY,
    STRATIFY_BY,
    SampleUnit,
    Stratum,
    draw_stratified,
    flag_id,
    sampling_frame,
)
from fdarx_core.review.tasks import CLAIM_TASK, EVALUATE, FACTUALITY, GRADE_TASK, REVIEW_TASKS, TASKS_BY_JOB, ReviewTask
from fdarx_core.storage import RunDirectory, StorageError, read_records, read_where

_INCOMPLETE = "question {} rests on a label or passage that the run does not have; delete the run and build it again"


@dataclass(frozen=True, slots=True)
class ReviewSample:
    """The items in the order in which annotators see them, and the contents of review.json."""

    items: list[ReviewItem]
    info: dict[str, Any]


JudgeInput: TypeAlias = tuple[QuestionAnswer, Label, list[Passage]]
"""The data for the slots of a judge: a question, its label, and the label's passages in document order."""


def draw_sample(
    run: RunDirectory,
    n: int,
    *,
    seed: int = 0,
    tasks: Collection[str] = (),
    models: Collection[str] = (),
    settings: Collection[str] = (),
    undecided_first: bool = False,
) -> ReviewSample:
    """Draw `n` questions of a build, or predictions of an evaluation, each question once, with one item a task; of a
    factuality run `n` claims, and `n` flags.

    The sample is stratified by verdict, type, relevance and category, or by model and setting in place of the last two.
    No tasks, models or settings (both of answers) stand for all. With `undecided_first`, items that the judge did not
    decide come first. Raises StorageError where no task fits the run, where it lacks a model or setting, or where no
    judge was asked about anything.
    """
    info = run.info()
    job = info["job"]
    asked = [task for task in TASKS_BY_JOB[job] if not tasks or task in tasks]
    if not asked:
        raise StorageError(f"{run.root} is a run of {job}; its tasks are {', '.join(TASKS_BY_JOB[job])}")
    units = sampling_frame(run, asked, models, settings, seed)
    # Of a factuality run, `n` units of each task; of others, of all units together. All are in one random order.
    by_task = [[unit for unit in units if unit.task == task] for task in sorted({unit.task for unit in units})]
    samples = [draw_stratified(of_task, n, seed) for of_task in by_task]
    drawn = (row for drawn_rows, _, _ in samples for row in drawn_rows)
    rows = sorted(drawn, key=lambda row: content_id(str(seed), "order", row[0].id))
    depth = max(depth for _, _, depth in samples)
    if job == FACTUALITY:
        items = factuality_items(run, rows)
    else:
        items = grade_items(run, rows) if job == EVALUATE else build_items(run, rows, asked)
    if undecided_first:
        items.sort(key=lambda item: bool(item.decision))
    review_info = {
        "digest": content_id(*item_texts(items)),
        "run": str(run.root),
        "job": job,
        "input": (info.get("input") or info.get("benchmark") or {}).get("digest", ""),
        "seed": seed,
        "n": n,
        "tasks": asked,
        "models": list(models),
        "settings": list(settings),
        "by": list((STRATIFY_ANSWERS_BY if job == FACTUALITY else STRATIFY_BY)[:depth]),
        "population": len(units),
        "subjects": len(rows),
        "items": len(items),
        "strata": [{**asdict(stratum), "fraction": stratum.fraction} for _, strata, _ in samples for stratum in strata],
    }
    return ReviewSample(items, review_info)


def item_texts(items: Iterable[ReviewItem]) -> list[str]:
    """Return each item as canonical JSON, from which the digest of a review is made."""
    return [json.dumps(asdict(item), sort_keys=True, ensure_ascii=False) for item in items]


def build_items(
    run: RunDirectory, rows: Sequence[tuple[SampleUnit, Stratum]], tasks: Sequence[str]
) -> list[ReviewItem]:
    """Return the items of a build's questions, in the order of the sample and those of one question together.

    A question has an item for each task whose judge was asked about it; one that nobody judged has an item for each
    task, without a decision. `evidence` holds the passages of the judge's prompt.
    """
    inputs: dict[str, JudgeInput] = {}
    verdicts: dict[tuple[str, str], JudgeVerdict] = {}  # of all votes of a stage together
    for (_, part), ids in _ids_by_file(rows).items():
        inputs |= _read_judge_inputs(run, part, ids)
        verdicts |= majorities(read_where(run.file(f"verdicts/{part}"), "question_id", ids, JudgeVerdict))
    judged = {question_id for question_id, _ in verdicts}
    items = []
    for unit, stratum in rows:
        for task in (REVIEW_TASKS[name] for name in tasks):
            verdict = verdicts.get((unit.id, task.stage))
            if verdict is None and unit.id not in judged:
                verdict = JudgeVerdict(unit.id, inputs[unit.id][0].set_id, task.stage, "unscored", "not_judged")
            if verdict is not None:
                items.append(_judged_item(task, unit, stratum, inputs[unit.id], verdict))
    return items


def grade_items(run: RunDirectory, rows: Sequence[tuple[SampleUnit, Stratum]]) -> list[ReviewItem]:
    """Return the items of an evaluation's predictions. `evidence` holds the gold passages, which no judge saw."""
    predictions: dict[str, Prediction] = {}
    grades: dict[str, Grade] = {}
    for (model, part), ids in _ids_by_file(rows).items():
        file = run.file(f"predictions/{model}/{part}")
        predictions |= {row.id: row for row in read_where(file, "id", ids, Prediction)}
        file = run.file(f"grades/{model}/{part}")
        grades |= {row.prediction_id: row for row in read_where(file, "prediction_id", ids, Grade)}
    question_ids = {unit.question_id for unit, _ in rows}
    questions = {
        row.id: row for part in run.parts("questions") for row in read_where(part, "id", question_ids, QuestionAnswer)
    }
    set_ids = {row.set_id for row in questions.values()}
    passages = _by_label(row for part in run.parts("passages") for row in read_where(part, "set_id", set_ids, Passage))
    return [
        _graded_item(predictions[unit.id], grades[unit.id], questions[unit.question_id], passages, unit, stratum)
        for unit, stratum in rows
    ]


def factuality_items(run: RunDirectory, rows: Sequence[tuple[SampleUnit, Stratum]]) -> list[ReviewItem]:
    """Return the items of claims, with the passages that decided their verdicts, and of flags, with the statement of
    the label."""
    method = run.info()["method"]
    found: dict[str, dict[str, Any]] = {}
    for (_, part), ids in _ids_by_file(rows).items():
        answers = {
            row.id: {
                **{name: getattr(row, name) for name in ("drug", "type", "question", "answer", "model", "setting")},
                "set_id": row.set_id or row.cluster or row.question_id,
                "category": "",
            }
            for row in read_records(run.file(f"answers/{part}"), CheckedAnswer)
        }
        evidence = {row.id: row for row in read_records(run.file(f"evidence/{part}"), Evidence)}
        verdicts = {
            row.claim_id: row for row in read_where(run.file(f"verdicts/{part}"), "claim_id", ids, ClaimVerdict)
        }
        pairs: dict[str, list[PairVerdict]] = defaultdict(list)
        for pair in read_where(run.file(f"pairs/{part}"), "claim_id", ids, PairVerdict):
            if (pair.kind, pair.engine) == ("evidence", method["engine"]) and pair.rank <= method["k"]:
                pairs[pair.claim_id].append(pair)
        for claim in read_where(run.file(f"claims/{part}"), "id", ids, Claim):
            near = [evidence[pair.evidence_id] for pair in sorted(pairs[claim.id], key=lambda pair: pair.rank)]
            verdict = verdicts[claim.id]
            found[claim.id] = {
                **answers[claim.answer_id],
                "statement": claim.resolved,
                "decision": verdict.verdict if verdict.verdict in REVIEW_TASKS[CLAIM_TASK].choices else "",
                "because": _reason(verdict.verdict, verdict.reason),
                "evidence": [passage.text for passage in near],
                "context": _context([(_heading(passage), passage.text) for passage in near]),
                "judge": method["engine"],
            }
        for flag in read_records(run.file(f"flags/{part}"), SafetyFlag):
            if (id_ := flag_id(flag)) in ids:
                found[id_] = {
                    **answers[flag.answer_id],
                    "statement": flag.text or f"(nothing: {flag.subject} is missing)",
                    "decision": "harmful",
                    "because": _reason(flag.kind, flag.subject),
                    "evidence": [flag.because],
                    "context": _context([(f"Label of {flag.drug}", flag.because)]),
                    "judge": method["engine"],
                }
    return [_item(REVIEW_TASKS[unit.task], unit.id, stratum, **found[unit.id]) for unit, stratum in rows]


def _read_judge_inputs(run: RunDirectory, part: str, question_ids: Collection[str]) -> dict[str, JudgeInput]:
    """Read those of the questions that a part of a build holds, by id. Raises StorageError where a label is missing."""
    questions = list(read_where(run.file(f"candidates/{part}"), "id", question_ids, QuestionAnswer))
    if not questions:
        return {}
    set_ids = {question.set_id for question in questions}
    labels = {label.set_id: label for label in read_where(run.file(f"labels/{part}"), "set_id", set_ids, Label)}
    passages = _by_label(read_where(run.file(f"passages/{part}"), "set_id", set_ids, Passage))
    for question in questions:
        if question.set_id not in labels:
            raise StorageError(_INCOMPLETE.format(question.id))
    return {
        question.id: (question, labels[question.set_id], passages.get(question.set_id, [])) for question in questions
    }


def _ids_by_file(rows: Sequence[tuple[SampleUnit, Stratum]]) -> dict[tuple[str, str], set[str]]:
    """Return the ids of the units by model, "" but for predictions, and part."""
    ids: dict[tuple[str, str], set[str]] = defaultdict(set)
    for unit, _ in rows:
        ids[unit.model, unit.part].add(unit.id)
    return ids


def _by_label(rows: Iterable[Passage]) -> dict[str, list[Passage]]:
    labels: dict[str, list[Passage]] = defaultdict(list)
    for row in rows:
        labels[row.set_id].append(row)
    return {set_id: sorted(passages, key=lambda row: row.doc_chunk_index) for set_id, passages in labels.items()}


def _item(
    task: ReviewTask, subject: str, stratum: Stratum, question: QuestionAnswer | None = None, /, **fields: Any
) -> ReviewItem:
    about: dict[str, Any] = {}
    if question is not None:
        about = {name: getattr(question, name) for name in ("set_id", "type", "category", "question", "answer")}
        about["drug"] = question.drug_name
    return ReviewItem(
        id=content_id(task.name, subject),
        task=task.name,
        subject=subject,
        choices=list(task.options),
        stratum=stratum.name,
        **{"decision": "", "fraction": stratum.fraction, **about, **fields},
    )


def _judged_item(
    task: ReviewTask, unit: SampleUnit, stratum: Stratum, judged: JudgeInput, verdict: JudgeVerdict
) -> ReviewItem:
    try:
        slots = next(judge for judge in judges() if judge.stage == task.stage).slots(*judged)
    except (KeyError, IndexError) as missing:
        raise StorageError(_INCOMPLETE.format(unit.id)) from missing
    if "context_a" in slots:
        passages = [(slots["section_a"], slots["context_a"]), (slots["section_b"], slots["context_b"])]
    else:
        passages = [(passage["section"], passage["text"]) for passage in slots.get("passages", ())]
    decided = verdict.outcome != "unscored"
    if task.stage == "relevance":
        decision = verdict.relevance if task.name == "relevance" else verdict.category
    else:
        decision = next(iter(task.choices)) if verdict.outcome == "kept" else [*task.choices][-1]
    # One judge decides relevance and category: its reason for one would tell annotators the other.
    silent = task.stage == "relevance" and decided
    return _item(
        task,
        unit.id,
        stratum,
        judged[0],
        category=unit.keys[3],
        decision=decision if decided else "",
        because="" if silent else _reason(verdict.reason, verdict.detail, verdict.evidence),
        kept=unit.keys[0] == "kept",
        evidence=[text for _, text in passages],
        context=_context(passages) if passages else f"Sections: {'; '.join(slots.get('sections', ())) or 'none'}",
        judge=verdict.endpoint,
    )


def _graded_item(
    prediction: Prediction,
    grade: Grade,
    question: QuestionAnswer,
    passages: Mapping[str, list[Passage]],
    unit: SampleUnit,
    stratum: Stratum,
) -> ReviewItem:
    gold = set(gold_indices(question)) if question.answerable else set()
    shown = [(row.section_path, row.text) for row in passages.get(prediction.set_id, ()) if row.doc_chunk_index in gold]
    task = REVIEW_TASKS[GRADE_TASK]
    return _item(
        task,
        prediction.id,
        stratum,
        question,
        answer=prediction.answer if prediction.outcome == "answered" else prediction.text,
        decision=grade.outcome if grade.outcome in task.choices else "",
        because=_reason(grade.reason, grade.detail),
        evidence=[text for _, text in shown],
        context=_context(shown),
        gold=question.answer,
        model=prediction.model,
        setting=" ".join(filter(None, (prediction.setting, prediction.retriever))),
        judge=grade.judge,
        fraction=stratum.fraction / unit.predictions,
    )


def _heading(passage: Evidence) -> str:
    return " · ".join(filter(None, (passage.title, passage.section)))


def _context(passages: Sequence[tuple[str, str]]) -> str:
    return "\n\n".join(f"[{title or 'untitled section'}]\n{text}" for title, text in passages)


def _reason(reason: str, detail: str, evidence: Sequence[str] = ()) -> str:
    """Join reason, detail and quotations. A detail that begins with the reason's id keeps it: criteria are named so."""
    text = detail if detail.startswith(f"{reason}: ") else ": ".join(filter(None, (reason.replace("_", " "), detail)))
    return " ".join(filter(None, (text, *(f"“{quote}”" for quote in evidence))))
