"""The items of a review: the sample drawn from a run, what annotators are shown, and what the judge decided."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias, TypeVar

from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.filters.judges import Judge, judges
from fdarx_core.filters.votes import majorities
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
    StratifiedSample,
    Stratum,
    draw_stratified,
    factuality_units,
    flag_id,
    prediction_units,
    question_units,
)
from fdarx_core.review.tasks import (
    CLAIM_TASK,
    EVALUATE,
    FACTUALITY,
    GRADE_TASK,
    REVIEW_TASKS,
    TASKS_BY_JOB,
    ReviewTask,
)
from fdarx_core.storage import RunDirectory, StorageError, read_records, read_where

Key = TypeVar("Key")


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
    job = run.info()["job"]
    asked = [task for task in TASKS_BY_JOB[job] if not tasks or task in tasks]
    if not asked:
        raise StorageError(f"{run.root} is a run of {job}; its tasks are {', '.join(TASKS_BY_JOB[job])}")
    if job == EVALUATE:
        units = prediction_units(run, models, settings, seed)
    elif job == FACTUALITY:
        units = factuality_units(run, asked, models, settings)
    elif models or settings:
        raise StorageError(f"{run.root} is a build: it has no answers of models; leave --models and --settings out")
    else:
        units = question_units(run, asked)
    if not units:
        raise StorageError(
            f"{run.root} has nothing that a judge was asked about; was it built or evaluated with a judge?"
        )
    rows, strata, depth = _draw(units, n, seed)
    if job == FACTUALITY:
        items = factuality_items(run, rows)
    else:
        items = grade_items(run, rows) if job == EVALUATE else build_items(run, rows, asked)
    if undecided_first:
        items.sort(key=lambda item: bool(item.decision))
    info = run.info()
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
        "strata": strata_info(strata),
    }
    return ReviewSample(items, review_info)


def _draw(units: Sequence[SampleUnit], n: int, seed: int) -> StratifiedSample:
    """Draw `n` units of each task of a factuality run, and of all other units together; all in one random order."""
    tasks = sorted({unit.task for unit in units})
    samples = [draw_stratified([unit for unit in units if unit.task == task], n, seed) for task in tasks]
    rows = sorted(
        (row for one, _, _ in samples for row in one), key=lambda row: content_id(str(seed), "order", row[0].id)
    )
    return rows, [stratum for _, strata, _ in samples for stratum in strata], max(depth for _, _, depth in samples)


def strata_info(strata: Iterable[Stratum]) -> list[dict[str, Any]]:
    """Return the strata as review.json holds them."""
    return [{**asdict(stratum), "fraction": stratum.fraction} for stratum in strata]


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
    for part, ids in _ids_by(rows, lambda unit: unit.part).items():
        inputs |= read_judge_inputs(run, part, ids)
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
    for (model, part), ids in _ids_by(rows, lambda unit: (unit.cell.model, unit.part)).items():
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
    for part, ids in _ids_by(rows, lambda unit: unit.part).items():
        answers = {row.id: row for row in read_records(run.file(f"answers/{part}"), CheckedAnswer)}
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
            found[claim.id] = {
                **_of_answer(answers[claim.answer_id]),
                **_of_claim(claim, verdicts[claim.id], near),
                "judge": method["engine"],
            }
        for flag in read_records(run.file(f"flags/{part}"), SafetyFlag):
            if (id_ := flag_id(flag)) in ids:
                found[id_] = {**_of_answer(answers[flag.answer_id]), **_of_flag(flag)}
    return [_new_item(REVIEW_TASKS[unit.task], unit.id, stratum, **found[unit.id]) for unit, stratum in rows]


def _of_answer(answer: CheckedAnswer) -> dict[str, Any]:
    return {
        "set_id": answer.set_id or answer.cluster or answer.question_id,
        "drug": answer.drug,
        "type": answer.type,
        "category": "",
        "question": answer.question,
        "answer": answer.answer,
        "model": answer.model,
        "setting": answer.setting,
    }


def _of_claim(claim: Claim, verdict: ClaimVerdict, near: Sequence[Evidence]) -> dict[str, Any]:
    return {
        "statement": claim.resolved,
        "decision": verdict.verdict if verdict.verdict in REVIEW_TASKS[CLAIM_TASK].choices else "",
        "because": _reason(verdict.verdict, verdict.reason),
        "evidence": [one.text for one in near],
        "context": _context([(" · ".join(filter(None, (one.title, one.section))), one.text) for one in near]),
    }


def _of_flag(flag: SafetyFlag) -> dict[str, Any]:
    return {
        "statement": flag.text or f"(nothing: {flag.subject} is missing)",
        "decision": "harmful" if flag.status == "flagged" else "",
        "because": _reason(flag.status, _reason(flag.kind, flag.subject)),
        "evidence": [flag.because],
        "context": _context([(f"Label of {flag.drug}", flag.because)]),
        "judge": "safety checks",
    }


def read_judge_inputs(run: RunDirectory, part: str, question_ids: Collection[str]) -> dict[str, JudgeInput]:
    """Read those of the questions that a part of a build holds, by id. Raises StorageError where a label is missing."""
    questions = list(read_where(run.file(f"candidates/{part}"), "id", question_ids, QuestionAnswer))
    if not questions:
        return {}
    set_ids = {question.set_id for question in questions}
    labels = {label.set_id: label for label in read_where(run.file(f"labels/{part}"), "set_id", set_ids, Label)}
    passages = _by_label(read_where(run.file(f"passages/{part}"), "set_id", set_ids, Passage))
    for question in questions:
        if question.set_id not in labels:
            raise _incomplete(question)
    return {one.id: (one, labels[one.set_id], passages.get(one.set_id, [])) for one in questions}


def judge_slots(judge: Judge, given: JudgeInput) -> dict[str, Any]:
    """Return the slots of the judge's prompt. Raises StorageError where the run lacks a gold passage."""
    try:
        return judge.slots(*given)
    except (KeyError, IndexError) as missing:
        raise _incomplete(given[0]) from missing


def verdict_value(task: ReviewTask, verdict: JudgeVerdict) -> str:
    """Return a build's verdict as a value of the task, "" where the judge reached none."""
    if verdict.outcome == "unscored":
        return ""
    if task.name in ("relevance", "category"):
        return verdict.relevance if task.name == "relevance" else verdict.category
    positive, negative = task.choices
    return positive if verdict.outcome == "kept" else negative


def shown_answer(prediction: Prediction) -> str:
    """Return what annotators read of a prediction: its answer, or the whole reply where it holds no answer."""
    return prediction.answer if prediction.outcome == "answered" else prediction.text


def _ids_by(rows: Sequence[tuple[SampleUnit, Stratum]], key: Callable[[SampleUnit], Key]) -> dict[Key, set[str]]:
    ids: dict[Key, set[str]] = defaultdict(set)
    for unit, _ in rows:
        ids[key(unit)].add(unit.id)
    return ids


def _by_label(rows: Iterable[Passage]) -> dict[str, list[Passage]]:
    labels: dict[str, list[Passage]] = defaultdict(list)
    for row in rows:
        labels[row.set_id].append(row)
    return {set_id: sorted(passages, key=lambda row: row.doc_chunk_index) for set_id, passages in labels.items()}


def _incomplete(question: QuestionAnswer) -> StorageError:
    return StorageError(
        f"question {question.id} rests on a label or passage that the run does not have; delete the run and build it "
        "again"
    )


def _new_item(task: ReviewTask, subject: str, stratum: Stratum, **shown: Any) -> ReviewItem:
    return ReviewItem(
        id=content_id(task.name, subject),
        task=task.name,
        subject=subject,
        choices=list(task.options),
        stratum=stratum.name,
        **{"decision": "", "fraction": stratum.fraction, **shown},
    )


def _item(task: ReviewTask, subject: str, question: QuestionAnswer, stratum: Stratum) -> ReviewItem:
    about = {name: getattr(question, name) for name in ("set_id", "type", "category", "question", "answer")}
    return _new_item(task, subject, stratum, drug=question.drug_name, **about)


def _judged_item(
    task: ReviewTask, unit: SampleUnit, stratum: Stratum, judged: JudgeInput, verdict: JudgeVerdict
) -> ReviewItem:
    slots = judge_slots(next(judge for judge in judges() if judge.stage == task.stage), judged)
    if "context_a" in slots:
        passages = [(slots["section_a"], slots["context_a"]), (slots["section_b"], slots["context_b"])]
    else:
        passages = [(passage["section"], passage["text"]) for passage in slots.get("passages", ())]
    # One judge decides relevance and category: its reason for one would tell annotators the other.
    silent = task.stage == "relevance" and verdict.outcome != "unscored"
    return replace(
        _item(task, unit.id, judged[0], stratum),
        category=unit.keys[3],
        decision=verdict_value(task, verdict),
        because="" if silent else _reason(verdict.reason, verdict.detail, verdict.evidence),
        kept=unit.verdict == "kept",
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
    gold = set(gold_indices(question)) if question.type != "refusal" else set()
    shown = [(row.section_path, row.text) for row in passages.get(prediction.set_id, ()) if row.doc_chunk_index in gold]
    task = REVIEW_TASKS[GRADE_TASK]
    return replace(
        _item(task, prediction.id, question, stratum),
        answer=shown_answer(prediction),
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


def _context(passages: Sequence[tuple[str, str]]) -> str:
    return "\n\n".join(f"[{title or 'untitled section'}]\n{text}" for title, text in passages)


def _reason(reason: str, detail: str, evidence: Sequence[str] = ()) -> str:
    """Join reason, detail and quotations. A detail that begins with the reason's id keeps it: criteria are named so."""
    text = detail if detail.startswith(f"{reason}: ") else ": ".join(filter(None, (reason.replace("_", " "), detail)))
    return " ".join(filter(None, (text, *(f"“{quote}”" for quote in evidence))))
