"""Everything that a run has on one question, for `fdarx show`."""

from __future__ import annotations

from typing import Any

from fdarx_core.llm import ResponseStore
from fdarx_core.records import (
    CheckedAnswer,
    Grade,
    JudgeVerdict,
    Passage,
    Prediction,
    QuestionAnswer,
    Reject,
    SettingProgress,
)
from fdarx_core.report.page_engine import render_page
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records, read_where
from fdarx_core.storage.splits import TEST, Splits


def trace_text(trace: dict[str, Any]) -> str:
    """Return what `build_trace`, `evaluation_trace` or `factuality_trace` returns as text, which ends its last line."""
    kind = "evaluation" if "predictions" in trace else "factuality" if "answers" in trace else "build"
    return render_page(f"trace_{kind}.txt.j2", **trace).rstrip("\n") + "\n"


def _find_question(run: RunDirectory, kind: str, question_id: str, places: str) -> tuple[Location, QuestionAnswer]:
    """Return the question of that id among the rows of a kind, and its part. `places` is for the error message."""
    for part in run.parts(kind):
        for question in read_where(part, "id", [question_id], QuestionAnswer):
            return part, question
    raise StorageError(
        f"{run.root} has no question {question_id!r}; ids have 16 hexadecimal digits and are in {places}"
    )


def build_trace(run: RunDirectory, question_id: str) -> dict[str, Any]:
    """Return everything that a build has on a question: context, responses, verdicts and outcome.

    Raises StorageError, which says what ids look like and where to find them.
    """
    part, question = _find_question(
        run, "candidates", question_id, "benchmark/qa.jsonl (qid), candidates/ and rejects/"
    )
    passages = read_where(run.file(f"passages/{part.name}"), "set_id", [question.set_id], Passage)
    gold = [passage for passage in passages if passage.doc_chunk_index in question.gold_passages]
    verdicts = list(read_where(run.file(f"verdicts/{part.name}"), "question_id", [question.id], JudgeVerdict))
    keys = [question.response_key, *(verdict.response_key for verdict in verdicts)]
    responses = ResponseStore(run.file("responses")).get(filter(None, keys))
    rejected = list(read_records(run.file(f"rejects/{part.name}"), Reject))
    reject = next((one for one in rejected if one.id == question.id), None)
    if reject is None or any(read_where(run.file(f"questions/{part.name}"), "id", [question.id], QuestionAnswer)):
        repeats = [one.id for one in rejected if one.stage == "duplicates" and one.detail == question.id]
        repeated = f"; repeated by {', '.join(repeats)}" if repeats else ""
        outcome = f"in the benchmark, {Splits.of_run(run.info()).of(question.set_id)} split{repeated}"
    else:
        outcome = f"dropped at {reject.stage}: {reject.reason}. {reject.detail}".rstrip()
    return {"question": question, "gold": gold, "verdicts": verdicts, "responses": responses, "outcome": outcome}


def evaluation_trace(run: RunDirectory, question_id: str) -> dict[str, Any]:
    """Return everything that an evaluation has on a question: gold passages, and each prediction with its grade.

    Raises StorageError where there is none with this id.
    """
    part, question = _find_question(run, "questions", question_id, "questions/ and answers.html")
    rows = read_where(run.file(f"passages/{part.name}"), "set_id", [question.set_id], Passage)
    passages = {row.doc_chunk_index: row for row in rows}
    gold = [passages[index] for index in question.gold_passages if index in passages]
    predictions: list[dict[str, Prediction | Grade | None]] = []
    for model in dict.fromkeys(cell.model for cell in read_records(run.file("cells.parquet"), SettingProgress)):
        made, graded = run.file(f"predictions/{model}/{part.name}"), run.file(f"grades/{model}/{part.name}")
        if made.exists():
            grades = {row.prediction_id: row for row in read_records(graded, Grade)}
            of_question = read_where(made, "question_id", [question.id], Prediction)
            predictions += [{"prediction": row, "grade": grades.get(row.id)} for row in of_question]
    split = run.info()["benchmark"].get("split", TEST)
    return {"question": question, "split": split, "gold": gold, "predictions": predictions}


def factuality_trace(run: RunDirectory, id: str) -> dict[str, Any]:
    """Return the answers to a question, or one answer, by its id: each with its claims, verdicts and deciding passages.

    Raises StorageError where there is none with this id.
    """
    checked = (row for part in run.parts("answers") for row in read_records(part, CheckedAnswer))
    answers = [row for row in checked if id in (row.question_id, row.id)]
    if not answers:
        raise StorageError(f"{run.root} has no question or answer {id!r}; their ids are on report.html and in answers/")
    claims = run.claims().sort_values("number")
    rows = {row.id: claims[claims["answer_id"] == row.id].to_dict("records") for row in answers}
    return {"question": answers[0].question, "answers": [{"answer": row, "claims": rows[row.id]} for row in answers]}
