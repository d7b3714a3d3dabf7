"""What all models of an evaluation said to one question, for a person to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent

from fdarx_core.records import Cell, Grade, Passage, Prediction, QuestionAnswer
from fdarx_core.report.life import find_question
from fdarx_core.storage import Location, RunDirectory, read_records


@dataclass(slots=True)
class Answers:
    """One question, the passages of its label by index, and each prediction with its grade."""

    question: QuestionAnswer
    passages: dict[int, Passage]
    graded: list[tuple[Prediction, Grade | None]]


def find_answers(run: RunDirectory, question_id: str) -> Answers:
    """Read them from an evaluation's run. Raises UnknownQuestion."""
    part, question = find_question(run, "questions", question_id, "questions/ and among the report's wrong answers")
    return _answers(run, part, question)


def _answers(run: RunDirectory, part: Location, question: QuestionAnswer) -> Answers:
    passages = read_records(run.file(f"passages/{part.name}"), Passage)
    graded: list[tuple[Prediction, Grade | None]] = []
    for model in dict.fromkeys(cell.model for cell in read_records(run.file("cells.parquet"), Cell)):
        said, found = run.file(f"predictions/{model}/{part.name}"), run.file(f"grades/{model}/{part.name}")
        if said.exists():
            grades = {row.prediction_id: row for row in read_records(found, Grade)}
            mine = (row for row in read_records(said, Prediction) if row.question_id == question.id)
            graded += [(row, grades.get(row.id)) for row in mine]
    own = {row.doc_chunk_index: row for row in passages if row.set_id == question.set_id}
    return Answers(question, own, graded)


def tell_answers(answers: Answers) -> str:
    """As plain text."""
    return "\n".join(_lines(answers)) + "\n"


def _lines(answers: Answers) -> Iterator[str]:
    question = answers.question
    yield f"question   {question.question}"
    yield f"gold       {question.answer}"
    yield f"id         {question.id}   type {question.type} ({question.answer_kind})"
    yield f"label      {question.drug_name}, set id {question.set_id}, topic {question.category or 'none'}"
    for index in question.gold_passages:
        if index in answers.passages:
            passage = answers.passages[index]
            yield f"\ngold in    {passage.marker}, {passage.section_path or 'untitled'}"
            yield indent(passage.text, "  | ")
    for prediction, grade in answers.graded:
        yield ""
        yield from _told(prediction, grade)


def _told(prediction: Prediction, grade: Grade | None) -> Iterator[str]:
    cell = " · ".join(filter(None, (prediction.model, prediction.setting, prediction.retriever)))
    why = f": {prediction.reason}" if prediction.reason else ""
    yield f"{cell} ({prediction.outcome}{why})"
    yield indent(prediction.text or "(nothing)", "  > ")
    if prediction.cited or prediction.cited_unknown:
        unknown = f", and {prediction.cited_unknown} that it was not shown" if prediction.cited_unknown else ""
        yield f"  cited    {_named(prediction.cited, prediction.cited_set_ids)}{unknown}"
    if prediction.shown and prediction.setting == "retrieved":
        yield f"  shown    {_named(prediction.shown, prediction.shown_set_ids)}"
    if prediction.cuts:
        yield f"  cut      {prediction.cuts} passages of the label did not fit"
    if grade:
        told = ": ".join(filter(None, (grade.reason, grade.detail)))
        yield f"  graded   {grade.outcome} by {grade.judge}{f' ({told})' if told else ''}"
    yield f"  response {prediction.response_key or 'made elsewhere'}"


def _named(indices: Sequence[int], set_ids: Sequence[str]) -> str:
    named = [f"PASSAGE_{index:04d}" for index in indices]
    return (
        ", ".join(f"{name} of {one}" for name, one in zip(named, set_ids, strict=True)) if set_ids else ", ".join(named)
    )
