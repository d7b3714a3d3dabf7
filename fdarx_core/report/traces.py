"""Everything that a run has on one question, as text for `fdarx show`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import indent
from typing import TypeVar

from fdarx_core.llm import ResponseStore
from fdarx_core.records import (
    Grade,
    JudgeVerdict,
    Passage,
    Prediction,
    QuestionAnswer,
    Reject,
    Response,
    SettingProgress,
)
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records

Record = TypeVar("Record")


def _find_question(run: RunDirectory, kind: str, question_id: str, places: str) -> tuple[Location, QuestionAnswer]:
    """Return the question of that id among the rows of a kind, and its part. `places` is for the error message."""
    for part in run.parts(kind):
        for question in read_records(part, QuestionAnswer):
            if question.id == question_id:
                return part, question
    raise StorageError(
        f"{run.root} has no question {question_id!r}; ids have 16 hexadecimal digits and are in {places}"
    )


def build_trace(run: RunDirectory, question_id: str) -> str:
    """Return everything that a build has on a question: context, responses, verdicts and outcome.

    Raises StorageError, which says what ids look like and where to find them.
    """
    part, question = _find_question(
        run, "candidates", question_id, "benchmark/qa.jsonl (qid), candidates/ and rejects/"
    )

    def beside(kind: str, record: type[Record]) -> Iterator[Record]:
        return read_records(run.file(f"{kind}/{part.name}"), record)

    gold = [
        passage
        for passage in beside("passages", Passage)
        if passage.set_id == question.set_id and passage.doc_chunk_index in question.gold_passages
    ]
    verdicts = [verdict for verdict in beside("verdicts", JudgeVerdict) if verdict.question_id == question.id]
    keys = [question.response_key, *(verdict.response_key for verdict in verdicts)]
    responses = ResponseStore(run.file("responses")).get(filter(None, keys))
    outcome = _outcome(
        question.id,
        any(one.id == question.id for one in beside("questions", QuestionAnswer)),
        beside("rejects", Reject),
    )
    return "\n".join(_build_lines(question, gold, verdicts, responses, outcome)) + "\n"


def _build_lines(
    question: QuestionAnswer,
    gold: Sequence[Passage],
    verdicts: Sequence[JudgeVerdict],
    responses: Mapping[str, Response],
    outcome: str,
) -> Iterator[str]:
    yield f"question   {question.question}"
    yield f"answer     {question.answer}"
    yield f"id         {question.id}   type {question.type} ({question.answer_kind}), source {question.source}"
    yield _label_line(question)
    if question.entity:
        yield f"absent     {question.entity}   template {question.template!r}"
    yield ""
    for passage in gold:
        title = f"{passage.section_number} {passage.section_title}".strip() or "untitled"
        yield f"context    {passage.marker}, {title} (LOINC {passage.section_code or 'none'})"
        yield indent(passage.text, "  | ")
    yield ""
    yield from _request("made by", question, responses)
    for verdict in verdicts:
        reason = f" ({verdict.reason}{': ' + verdict.detail if verdict.detail else ''})" if verdict.reason else ""
        yield f"{verdict.stage:<10} {verdict.outcome}{reason} {verdict.category} {verdict.relevance}".rstrip()
        yield from (f"  evidence  {quote}" for quote in verdict.evidence if quote)
        yield from _request("asked", verdict, responses)
    yield f"outcome    {outcome}"


def _label_line(question: QuestionAnswer) -> str:
    return f"label      {question.drug_name}, set id {question.set_id}, topic {question.category or 'none'}"


def _request(word: str, row: QuestionAnswer | JudgeVerdict, responses: Mapping[str, Response]) -> Iterator[str]:
    if not row.response_key:
        yield f"{word:<10} no model: the question comes from a template"
        return
    yield f"{word:<10} {row.endpoint}, task {row.task} version {row.task_version}, response {row.response_key}"
    response = responses.get(row.response_key)
    yield indent(response.text if response is not None else "(the response is not in this run's store)", "  > ")


def _outcome(question_id: str, kept: bool, rejects: Iterable[Reject]) -> str:
    rejected = list(rejects)
    reject = None if kept else next((one for one in rejected if one.id == question_id), None)
    if reject is not None:
        return f"dropped at {reject.stage}: {reject.reason}. {reject.detail}".rstrip()
    repeats = [one.id for one in rejected if one.stage == "duplicates" and one.detail == question_id]
    repeated = f"; repeated by {', '.join(repeats)}" if repeats else ""
    return f"in the benchmark{repeated}"


def evaluation_trace(run: RunDirectory, question_id: str) -> str:
    """Return everything that an evaluation has on a question: gold passages, and each prediction with its grade.

    Raises StorageError where there is none with this id.
    """
    part, question = _find_question(run, "questions", question_id, "questions/ and the wrong answers of the report")
    return "\n".join(_evaluation_lines(run, part.name, question)) + "\n"


def _evaluation_lines(run: RunDirectory, part: str, question: QuestionAnswer) -> Iterator[str]:
    rows = read_records(run.file(f"passages/{part}"), Passage)
    passages = {row.doc_chunk_index: row for row in rows if row.set_id == question.set_id}
    yield f"question   {question.question}"
    yield f"gold       {question.answer}"
    yield f"id         {question.id}   type {question.type} ({question.answer_kind})"
    yield _label_line(question)
    for passage in (passages[index] for index in question.gold_passages if index in passages):
        yield f"\ngold in    {passage.marker}, {passage.section_path or 'untitled'}"
        yield indent(passage.text, "  | ")
    for model in dict.fromkeys(cell.model for cell in read_records(run.file("cells.parquet"), SettingProgress)):
        predictions, found = run.file(f"predictions/{model}/{part}"), run.file(f"grades/{model}/{part}")
        if predictions.exists():
            grades = {row.prediction_id: row for row in read_records(found, Grade)}
            for row in read_records(predictions, Prediction):
                if row.question_id == question.id:
                    yield ""
                    yield from _prediction_lines(row, grades.get(row.id))


def _prediction_lines(prediction: Prediction, grade: Grade | None) -> Iterator[str]:
    cell = " · ".join(filter(None, (prediction.model, prediction.setting, prediction.retriever)))
    why = f": {prediction.reason}" if prediction.reason else ""
    yield f"{cell} ({prediction.outcome}{why})"
    yield indent(prediction.text or "(nothing)", "  > ")
    if prediction.cited or prediction.cited_unknown:
        unknown = f", and {prediction.cited_unknown} that were not in the prompt" if prediction.cited_unknown else ""
        yield f"  cited    {_named(prediction.cited, prediction.cited_set_ids)}{unknown}"
    if prediction.shown and prediction.setting == "retrieved":
        yield f"  shown    {_named(prediction.shown, prediction.shown_set_ids)}"
    if prediction.cuts:
        yield f"  cut      {prediction.cuts} passages of the label did not fit"
    if grade:
        reason = ": ".join(filter(None, (grade.reason, grade.detail)))
        yield f"  graded   {grade.outcome} by {grade.judge}{f' ({reason})' if reason else ''}"
    yield f"  response {prediction.response_key or 'made elsewhere'}"


def _named(indices: Sequence[int], set_ids: Sequence[str]) -> str:
    named = [f"PASSAGE_{index:04d}" for index in indices]
    return (
        ", ".join(f"{name} of {one}" for name, one in zip(named, set_ids, strict=True)) if set_ids else ", ".join(named)
    )
