"""Drawn questions and predictions as items: what an annotator is shown, and what the judge decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fdarx_core.evaluation.gold import gold_of
from fdarx_core.filters.judges import JUDGES
from fdarx_core.records import Grade, Passage, Prediction, QuestionAnswer, Verdict, content_id
from fdarx_core.records.review import ReviewItem
from fdarx_core.review.cases import Case, cases_of, decided, passages_by_label
from fdarx_core.review.frame import Unit
from fdarx_core.review.strata import Sample, Stratum
from fdarx_core.review.tasks import REVIEW_TASKS, ReviewTask
from fdarx_core.storage import RunDirectory, read_where

_STAGES = {judge.stage: judge for judge in JUDGES}


@dataclass(frozen=True, slots=True)
class _Read:
    """What the items of one part of a build need, by question id; verdicts by stage too."""

    cases: Mapping[str, Case]
    verdicts: Mapping[tuple[str, str], Verdict]


def build_items(run: RunDirectory, sample: Sample[Unit], tasks: Sequence[str]) -> list[ReviewItem]:
    """Items of a build's questions, those of one question together, in the sample's order.

    A task is asked about a question where its judge was. `evidence` are the passages of that judge's prompt.
    """
    read = {part: _read_build(run, part, units) for (_, part), units in _by_part(sample).items()}
    return [
        _judged(REVIEW_TASKS[task], unit, stratum, read[unit.part])
        for unit, stratum in sample.rows
        for task in tasks
        if (unit.id, REVIEW_TASKS[task].stage) in read[unit.part].verdicts
    ]


def grade_items(run: RunDirectory, sample: Sample[Unit]) -> list[ReviewItem]:
    """Items of an evaluation's predictions. `evidence` are the gold passages, which the judge did not see."""
    by_part = _by_part(sample)
    said: dict[str, Prediction] = {}
    grades: dict[str, Grade] = {}
    for (folder, part), units in by_part.items():
        ids = {unit.id for unit in units}
        said |= {row.id: row for row in read_where(run.file(f"{folder}/{part}"), "id", ids, Prediction)}
        place = run.file(f"grades/{folder.partition('/')[2]}/{part}")
        grades |= {row.prediction_id: row for row in read_where(place, "prediction_id", ids, Grade)}
    asked = {unit.question_id for unit, _ in sample.rows}
    questions = {
        row.id: row for part in run.parts("questions") for row in read_where(part, "id", asked, QuestionAnswer)
    }
    owners = {row.set_id for row in questions.values()}
    passages = passages_by_label(
        row for part in run.parts("passages") for row in read_where(part, "set_id", owners, Passage)
    )
    return [
        _graded(said[unit.id], grades[unit.id], questions[unit.question_id], passages, unit, stratum)
        for unit, stratum in sample.rows
    ]


def answer_of(said: Prediction) -> str:
    """What people read of a prediction: its answer, or all of the reply where that is none."""
    return said.answer if said.outcome == "answered" else said.text


def _by_part(sample: Sample[Unit]) -> dict[tuple[str, str], list[Unit]]:
    found: dict[tuple[str, str], list[Unit]] = defaultdict(list)
    for unit, _ in sample.rows:
        found[unit.folder, unit.part].append(unit)
    return found


def _read_build(run: RunDirectory, part: str, units: Sequence[Unit]) -> _Read:
    ids = {unit.id for unit in units}
    verdicts = read_where(run.file(f"verdicts/{part}"), "question_id", ids, Verdict)
    return _Read(cases_of(run, part, ids), {(row.question_id, row.stage): row for row in verdicts})


def _item(task: ReviewTask, subject: str, question: QuestionAnswer, stratum: Stratum) -> ReviewItem:
    """What can be said of the item before its judge is heard."""
    return ReviewItem(
        id=content_id(task.name, subject),
        task=task.name,
        subject=subject,
        set_id=question.set_id,
        drug=question.drug_name,
        type=question.type,
        category=question.category,
        question=question.question,
        answer=question.answer,
        choices=list(task.choices),
        decision="",
        stratum=stratum.name,
        fraction=stratum.fraction,
    )


def _judged(task: ReviewTask, unit: Unit, stratum: Stratum, read: _Read) -> ReviewItem:
    case, verdict = read.cases[unit.id], read.verdicts[unit.id, task.stage]
    slots = case.slots(_STAGES[task.stage])
    shown = _shown(slots)
    return replace(
        _item(task, unit.id, case.question, stratum),
        category=unit.keys[3],
        decision=decided(task, verdict),
        because=_why(task, verdict),
        kept=unit.keys[0] == "kept",
        evidence=[text for _, text in shown],
        context=_context(shown) if shown else f"Sections: {'; '.join(slots['sections']) or 'none'}",
        judge=verdict.endpoint,
    )


def _shown(slots: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The titles and texts of the passages in a judge's prompt."""
    if "context_a" in slots:
        return [(slots["section_a"], slots["context_a"]), (slots["section_b"], slots["context_b"])]
    return [(passage["section"], passage["text"]) for passage in slots.get("passages", ())]


def _context(shown: Sequence[tuple[str, str]]) -> str:
    return "\n\n".join(f"[{title or 'untitled section'}]\n{text}" for title, text in shown)


def _why(task: ReviewTask, verdict: Verdict) -> str:
    """One judge decides relevance and category: what it says of one would tell the other before people are asked."""
    tells_both = task.stage == "relevance" and verdict.outcome != "unscored"
    return "" if tells_both else _because(verdict.reason, verdict.detail, verdict.evidence)


def _because(reason: str, detail: str, evidence: Sequence[str] = ()) -> str:
    """A judge that names its faults begins the detail with the reason; the id stays, since criteria go by it."""
    told = detail if detail.startswith(f"{reason}: ") else ": ".join(filter(None, (reason.replace("_", " "), detail)))
    return " ".join(filter(None, (told, *(f"“{quote}”" for quote in evidence))))


def _graded(
    said: Prediction,
    grade: Grade,
    question: QuestionAnswer,
    passages: Mapping[str, list[Passage]],
    unit: Unit,
    stratum: Stratum,
) -> ReviewItem:
    gold = set(gold_of(question)) if question.type != "refusal" else set()
    shown = [(row.section_path, row.text) for row in passages.get(said.set_id, ()) if row.doc_chunk_index in gold]
    task = REVIEW_TASKS["grade"]
    return replace(
        _item(task, said.id, question, stratum),
        answer=answer_of(said),
        decision=grade.outcome if grade.outcome in task.choices else "",
        because=_because(grade.reason, grade.detail),
        evidence=[text for _, text in shown],
        context=_context(shown),
        gold=question.answer,
        model=said.model,
        setting=" ".join(filter(None, (said.setting, said.retriever))),
        judge=grade.judge,
        fraction=stratum.fraction / unit.alike,
    )
