"""The answers of a finished run of `fdarx evaluate` or `fdarx evaluate-rag`, joined with its questions."""

from __future__ import annotations

from collections.abc import Iterator

from fdarx_core.records import CheckedAnswer, Prediction, QuestionAnswer, RagAnswer, RagQuestion, content_id
from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.rundir import RunDirectory
from fdarx_core.storage.tables import read_records


def answers_of_run(run: RunDirectory) -> Iterator[CheckedAnswer]:
    """Every answer of every model in every setting, part by part. Raises `StorageError` for a damaged part."""
    return _evaluated(run) if run.info()["job"] == "evaluate" else _compared(run)


def open_answered(address: str) -> RunDirectory:
    """Raises `StorageError` for a run that has no answers, or not all."""
    run = RunDirectory.open(address)
    info = run.info()
    if info["job"] not in ("evaluate", "evaluate_rag"):
        raise StorageError(f"{address} is a run of {info['job']}; --predictions takes one of evaluate or evaluate-rag")
    if not run.complete:
        raise StorageError(f"{address} is {info['status']}: not all is answered; finish it with its own command")
    return run


def _evaluated(run: RunDirectory) -> Iterator[CheckedAnswer]:
    dataset = str(run.info().get("benchmark", {}).get("name", ""))
    for questions in run.parts("questions"):
        asked: dict[str, QuestionAnswer] = {row.id: row for row in read_records(questions, QuestionAnswer)}
        for folder in _models(run):
            place = folder / questions.name
            if place.exists():
                for row in read_records(place, Prediction):
                    yield _predicted(row, asked[row.question_id], dataset)


def _models(run: RunDirectory) -> list[Location]:
    return sorted({file.parent for file in run.file("predictions").list(recursive=True)})


def _predicted(row: Prediction, asked: QuestionAnswer, dataset: str) -> CheckedAnswer:
    return CheckedAnswer(
        id=row.id,
        question_id=row.question_id,
        question=asked.question,
        answer=row.answer,
        model=row.model,
        dataset=dataset,
        type=asked.type,
        setting="/".join(filter(None, (row.setting, row.retriever))),
        cluster=asked.set_id,
        set_id=asked.set_id,
        drug=asked.drug_name,
        outcome=row.outcome if row.outcome in ("answered", "refused") else "failed",
        references=[asked.answer],
    )


def _compared(run: RunDirectory) -> Iterator[CheckedAnswer]:
    for questions in run.parts("questions"):
        asked: dict[str, RagQuestion] = {row.id: row for row in read_records(questions, RagQuestion)}
        place = run.part("answers", 0).parent / questions.name
        if place.exists():
            for row in read_records(place, RagAnswer):
                yield _answered(row, asked[row.question_id])


def _answered(row: RagAnswer, asked: RagQuestion) -> CheckedAnswer:
    setting = f"{row.strategy}/{row.postprocess}"
    return CheckedAnswer(
        id=content_id("rag_answer", row.question_id, row.model, setting),
        question_id=row.question_id,
        question=asked.question,
        answer=row.answer,
        model=row.model,
        setting=setting,
        cluster=asked.cluster or asked.id,
        outcome=row.outcome,
        references=list(asked.references),
    )
