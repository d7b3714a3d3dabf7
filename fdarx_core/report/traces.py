"""Everything that a run holds about one question, as plain text for `fdarx show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import indent

from fdarx_core.llm import ResponseStore
from fdarx_core.records import Grade, Passage, Prediction, QuestionAnswer, Reject, Response, SettingProgress, Verdict
from fdarx_core.storage import Location, RunDirectory, read_records


class UnknownQuestion(ValueError):
    """No question of the run has this id."""


@dataclass(slots=True)
class QuestionTrace:
    """All that a run knows of one question; `reject` is None for one that made the benchmark."""

    question: QuestionAnswer
    gold: list[Passage]
    verdicts: list[Verdict]
    responses: dict[str, Response]
    reject: Reject | None = None
    duplicates: list[str] = field(default_factory=list)


def find_trace(run: RunDirectory, question_id: str) -> QuestionTrace:
    """Read a question's life from its run. Raises UnknownQuestion, which says how ids look and where they stand."""
    part, question = find_question(run, "candidates", question_id, "benchmark/qa.jsonl (qid), candidates/ and rejects/")
    return _life(run, part, question)


def find_question(run: RunDirectory, kind: str, question_id: str, places: str) -> tuple[Location, QuestionAnswer]:
    """The question of that id among the rows of a kind, and the part it stands in.

    Raises UnknownQuestion, which says how ids look and that they stand in `places`.
    """
    for part in run.parts(kind):
        for question in read_records(part, QuestionAnswer):
            if question.id == question_id:
                return part, question
    raise UnknownQuestion(
        f"{run.root} has no question {question_id!r}; ids have 16 hexadecimal digits and stand in {places}"
    )


def _life(run: RunDirectory, part: Location, question: QuestionAnswer) -> QuestionTrace:
    def beside(kind: str) -> Location:
        return run.file(f"{kind}/{part.name}")

    gold = [
        passage
        for passage in read_records(beside("passages"), Passage)
        if passage.set_id == question.set_id and passage.doc_chunk_index in question.gold_passages
    ]
    verdicts = [verdict for verdict in read_records(beside("verdicts"), Verdict) if verdict.question_id == question.id]
    rejects = list(read_records(beside("rejects"), Reject))
    keys = [question.response_key, *(verdict.response_key for verdict in verdicts)]
    kept = any(one.id == question.id for one in read_records(beside("questions"), QuestionAnswer))
    reject = None if kept else next((one for one in rejects if one.id == question.id), None)
    repeats = [one.id for one in rejects if one.stage == "duplicates" and one.detail == question.id]
    return QuestionTrace(
        question, gold, verdicts, ResponseStore(run.file("responses")).get(filter(None, keys)), reject, repeats
    )


def trace_text(life: QuestionTrace) -> str:
    """The life as plain text."""
    return "\n".join(_lines(life)) + "\n"


def _lines(life: QuestionTrace) -> Iterator[str]:
    question = life.question
    yield f"question   {question.question}"
    yield f"answer     {question.answer}"
    yield f"id         {question.id}   type {question.type} ({question.answer_kind}), source {question.source}"
    yield f"label      {question.drug_name}, set id {question.set_id}, topic {question.category or 'none'}"
    if question.entity:
        yield f"absent     {question.entity}   template {question.template!r}"
    yield ""
    for passage in life.gold:
        title = f"{passage.section_number} {passage.section_title}".strip() or "untitled"
        yield f"context    {passage.marker}, {title} (LOINC {passage.section_code or 'none'})"
        yield indent(passage.text, "  | ")
    yield ""
    yield from _asked("made by", question.task, question.task_version, question.endpoint, question.response_key, life)
    for verdict in life.verdicts:
        reason = f" ({verdict.reason}{': ' + verdict.detail if verdict.detail else ''})" if verdict.reason else ""
        yield f"{verdict.stage:<10} {verdict.outcome}{reason} {verdict.category} {verdict.relevance}".rstrip()
        yield from (f"  evidence  {quote}" for quote in verdict.evidence if quote)
        yield from _asked("asked", verdict.task, verdict.task_version, verdict.endpoint, verdict.response_key, life)
    yield f"fate       {_fate(life)}"


def _asked(word: str, task: str, version: int, endpoint: str, key: str, life: QuestionTrace) -> Iterator[str]:
    if not key:
        yield f"{word:<10} nobody: it comes from a template"
        return
    yield f"{word:<10} {endpoint}, task {task} version {version}, response {key}"
    response = life.responses.get(key)
    yield indent(response.text if response is not None else "(the response is not in this run's store)", "  > ")


def _fate(life: QuestionTrace) -> str:
    if life.reject is not None:
        return f"dropped at {life.reject.stage}: {life.reject.reason}. {life.reject.detail}".rstrip()
    repeated = f"; repeated by {', '.join(life.duplicates)}" if life.duplicates else ""
    return f"in the benchmark{repeated}"


@dataclass(slots=True)
class QuestionAnswers:
    """One question, the passages of its label by index, and each prediction with its grade."""

    question: QuestionAnswer
    passages: dict[int, Passage]
    graded: list[tuple[Prediction, Grade | None]]


def find_question_answers(run: RunDirectory, question_id: str) -> QuestionAnswers:
    """Read them from an evaluation's run. Raises UnknownQuestion."""
    part, question = find_question(run, "questions", question_id, "questions/ and among the report's wrong answers")
    return _answers(run, part, question)


def _answers(run: RunDirectory, part: Location, question: QuestionAnswer) -> QuestionAnswers:
    passages = read_records(run.file(f"passages/{part.name}"), Passage)
    graded: list[tuple[Prediction, Grade | None]] = []
    for model in dict.fromkeys(cell.model for cell in read_records(run.file("cells.parquet"), SettingProgress)):
        said, found = run.file(f"predictions/{model}/{part.name}"), run.file(f"grades/{model}/{part.name}")
        if said.exists():
            grades = {row.prediction_id: row for row in read_records(found, Grade)}
            mine = (row for row in read_records(said, Prediction) if row.question_id == question.id)
            graded += [(row, grades.get(row.id)) for row in mine]
    own = {row.doc_chunk_index: row for row in passages if row.set_id == question.set_id}
    return QuestionAnswers(question, own, graded)


def question_answers_text(answers: QuestionAnswers) -> str:
    """As plain text."""
    return "\n".join(_lines_answers(answers)) + "\n"


def _lines_answers(answers: QuestionAnswers) -> Iterator[str]:
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
