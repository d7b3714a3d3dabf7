"""The whole life of one question, for a person to read: what it rests on, what was asked, said and judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from textwrap import indent

from fdarx_core.llm import ResponseStore
from fdarx_core.records import Passage, QuestionAnswer, Reject, Response, Verdict
from fdarx_core.storage import Location, RunDirectory, read_records


class UnknownQuestion(ValueError):
    """No question of the run has this id."""


@dataclass(slots=True)
class Life:
    """All that a run knows of one question; `reject` is None for one that made the benchmark."""

    question: QuestionAnswer
    gold: list[Passage]
    verdicts: list[Verdict]
    responses: dict[str, Response]
    reject: Reject | None = None
    duplicates: list[str] = field(default_factory=list)


def find_life(run: RunDirectory, question_id: str) -> Life:
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


def _life(run: RunDirectory, part: Location, question: QuestionAnswer) -> Life:
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
    return Life(question, gold, verdicts, ResponseStore(run.file("responses")).get(filter(None, keys)), reject, repeats)


def tell_life(life: Life) -> str:
    """The life as plain text."""
    return "\n".join(_lines(life)) + "\n"


def _lines(life: Life) -> Iterator[str]:
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


def _asked(word: str, task: str, version: int, endpoint: str, key: str, life: Life) -> Iterator[str]:
    if not key:
        yield f"{word:<10} nobody: it comes from a template"
        return
    yield f"{word:<10} {endpoint}, task {task} version {version}, response {key}"
    response = life.responses.get(key)
    yield indent(response.text if response is not None else "(the response is not in this run's store)", "  > ")


def _fate(life: Life) -> str:
    if life.reject is not None:
        return f"dropped at {life.reject.stage}: {life.reject.reason}. {life.reject.detail}".rstrip()
    repeated = f"; repeated by {', '.join(life.duplicates)}" if life.duplicates else ""
    return f"in the benchmark{repeated}"
