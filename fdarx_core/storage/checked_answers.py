"""Answers to check for factuality, from files and runs, and reference statements."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, TypeAlias

from fdarx_core.records import (
    CheckedAnswer,
    LabelSummary,
    Prediction,
    QuestionAnswer,
    RagAnswer,
    RagQuestion,
    Reject,
    content_id,
)
from fdarx_core.storage.errors import InputError, StorageError
from fdarx_core.storage.imported_predictions import TEXT_KEYS, answer_text, normalized_question
from fdarx_core.storage.location import Location
from fdarx_core.storage.run_directory import RunDirectory
from fdarx_core.storage.tables import (
    check_rows_file,
    no_usable_row,
    parse_rows,
    read_records,
    read_rows,
    text_at,
    texts_at,
)

STAGE = "predictions"
REFERENCES_STAGE = "references"
_STATEMENT_KEYS = "Question, and Must_have, Nice_to_have or Free_form_answer"
_ANSWER_KEYS = "question and answer"
_REFERENCES = ("references", "reference", "ground_truths", "ground_truth", "gold_answer")


StatementsRow: TypeAlias = tuple[str, str, list[str], list[str]]
"""The reference statements on one question: dataset, an expert's answer or "", must-have, nice-to-have statements."""


@dataclass(slots=True)
class ReferenceStatements:
    """Rows by `normalized_question`, the names of their files, and the rejected rows."""

    rows: dict[str, StatementsRow] = field(default_factory=dict)
    datasets: list[str] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def added_to(self, answer: CheckedAnswer) -> CheckedAnswer:
        """Return the answer with the statements on its question. The expert's answer becomes one more reference."""
        row = self.rows.get(normalized_question(answer.question))
        if row is None:
            return answer
        dataset, reference, must_have, nice_to_have = row
        return replace(
            answer,
            dataset=answer.dataset or dataset,
            references=[*answer.references, *({reference} - {"", *answer.references})],
            must_have=must_have,
            nice_to_have=nice_to_have,
        )


def read_references(addresses: Sequence[str]) -> ReferenceStatements:
    """Read files with MedLFQA's fields (Question, Free_form_answer, Must_have, Nice_to_have, in any case).

    A dataset is named after its file. The first of several rows on a question counts, the others are rejected.
    Raises StorageError for an unreadable file, ValueError where no file has a usable row. Source: MedLFQA (Jeong et
    al. 2024), FAS §4.
    """
    statements = ReferenceStatements()

    def parse(row: dict[str, Any]) -> StatementsRow:
        row = {str(key).lower(): value for key, value in row.items()}
        question, reference = normalized_question(text_at(row, "question")), text_at(row, "free_form_answer")
        if not question:
            raise InputError("no_question", "the key Question holds no text")
        must_have, nice_to_have = texts_at(row, "must_have"), texts_at(row, "nice_to_have")
        if not (reference or must_have or nice_to_have):
            raise InputError("no_statements", "Must_have, Nice_to_have and Free_form_answer hold no text")
        if question in statements.rows:
            raise InputError("duplicate", "an earlier row has the same question")
        return statements.rows.setdefault(question, (statements.datasets[-1], reference, must_have, nice_to_have))

    for location in map(Location, addresses):
        check_rows_file(location, "--references")
        statements.datasets.append(location.name.removesuffix(location.suffix))
        rows = parse_rows(
            read_rows(location, _STATEMENT_KEYS), parse, stage=REFERENCES_STAGE, id_keys=("id", "Id", "ID")
        )
        statements.rejects += [row for row in rows if isinstance(row, Reject)]
    if addresses and not statements.rows:
        raise ValueError(no_usable_row(", ".join(addresses), "reference", _STATEMENT_KEYS, statements.rejects))
    return statements


@dataclass(slots=True)
class AnswerSummary:
    """Counts over all rows.

    `with_statements` counts the answers that have reference statements, `statements` the questions with statements that
    have an answer. `digest` is that of all answers with their statements, in order.
    """

    rows: int = 0
    answers: int = 0
    rejects: int = 0
    with_statements: int = 0
    statements: int = 0
    models: Counter[str] = field(default_factory=Counter)
    questions: set[str] = field(default_factory=set)
    first_reject: Reject | None = None
    digest: str = ""

    def chosen(self, sample: int | None, seed: int) -> set[str]:
        """Draw `sample` question ids by a hash of the seed; return all where `sample` is None or there are fewer."""
        if sample is None:
            return self.questions
        return set(heapq.nsmallest(sample, self.questions, key=lambda question: content_id(str(seed), question)))


def _answers_of_file(location: Location, statements: ReferenceStatements) -> Iterator[CheckedAnswer | Reject]:
    name = location.name.removesuffix(location.suffix)  # DATASET.MODEL, or MODEL if there are no references of DATASET
    dataset = next((dataset for dataset in statements.datasets if name.startswith(f"{dataset}.")), "")
    model = name.removeprefix(f"{dataset}.") if dataset else name

    def parse(row: dict[str, Any]) -> CheckedAnswer:
        question = text_at(row, "question")
        if not normalized_question(question):
            raise InputError("no_question", "the key question holds no text")
        text, set_id = answer_text(row, "no_answer"), text_at(row, "set_id")
        question_id = content_id("checked_question", normalized_question(question), set_id)
        names = text_at(row, "model") or model, text_at(row, "dataset") or dataset, text_at(row, "setting")
        return CheckedAnswer(
            id=content_id("checked_answer", *names, text_at(row, "id") or question_id),
            question_id=question_id,
            question=question,
            answer=text,
            model=names[0],
            dataset=names[1],
            setting=names[2],
            type=text_at(row, "type"),
            cluster=set_id or question_id,
            set_id=set_id,
            drug=text_at(row, "drug"),
            outcome="answered" if text.strip() else "failed",
            references=texts_at(row, *_REFERENCES),
        )

    return parse_rows(read_rows(location, _ANSWER_KEYS, blank=TEXT_KEYS), parse, stage=STAGE)


def _evaluation_answers(run: RunDirectory) -> Iterator[CheckedAnswer | Reject]:
    """Yield the answers of a run of `evaluate`."""
    dataset = str(run.info().get("benchmark", {}).get("name", ""))
    models = sorted({file.parent for file in run.file("predictions").list(recursive=True)})
    for part in run.parts("questions"):
        questions = {row.id: row for row in read_records(part, QuestionAnswer)}
        drugs = {row.set_id: row.drug for row in read_records(run.file(f"subjects/{part.name}"), LabelSummary)}
        for file in (folder / part.name for folder in models):
            for row in read_records(file, Prediction) if file.exists() else ():
                question = questions[row.question_id]
                yield CheckedAnswer(
                    id=row.id,
                    question_id=row.question_id,
                    question=question.question,
                    answer=row.answer,
                    model=row.model,
                    dataset=dataset,
                    type=question.type,
                    setting="/".join(filter(None, (row.setting, row.retriever))),
                    cluster=drugs[question.set_id] or question.set_id,
                    set_id=question.set_id,
                    drug=question.drug_name,
                    outcome=row.outcome if row.outcome in ("answered", "refused") else "failed",
                    references=[question.answer],
                )


def _comparison_answers(run: RunDirectory) -> Iterator[CheckedAnswer | Reject]:
    """Yield the answers of a run of `evaluate-rag`."""
    for part in run.parts("questions"):
        questions = {row.id: row for row in read_records(part, RagQuestion)}
        file = run.file("answers") / part.name
        for row in read_records(file, RagAnswer) if file.exists() else ():
            question, setting = questions[row.question_id], f"{row.strategy}/{row.postprocess}"
            yield CheckedAnswer(
                id=content_id("rag_answer", row.question_id, row.model, setting),
                question_id=row.question_id,
                question=question.question,
                answer=row.answer,
                model=row.model,
                setting=setting,
                cluster=question.cluster or question.id,
                outcome=row.outcome,
                references=list(question.references),
            )


@dataclass(frozen=True, slots=True)
class CheckedAnswers:
    """All rows of the sources, each an answer or a Reject. Each iteration reads the sources again."""

    sources: Sequence[Location | RunDirectory]
    statements: ReferenceStatements = field(default_factory=ReferenceStatements)

    def __iter__(self) -> Iterator[CheckedAnswer | Reject]:
        seen: set[str] = set()
        for source in self.sources:
            if isinstance(source, Location):
                rows = _answers_of_file(source, self.statements)
            else:
                rows = (
                    _evaluation_answers(source) if source.info()["job"] == "evaluate" else _comparison_answers(source)
                )
            for row in rows:
                if isinstance(row, Reject):
                    yield row
                elif row.id in seen:
                    detail = f"an earlier row has an answer of {row.model} to the same question, or the same id"
                    yield Reject(row.id, STAGE, "duplicate", detail, row.set_id, _address(source))
                else:
                    seen.add(row.id)
                    yield self.statements.added_to(row)

    def summary(self) -> AnswerSummary:
        """Read all rows once and count them; of each question only the id stays in memory.

        Raises ValueError where no row is an answer, StorageError for a source that cannot be read.
        """
        summary, digest = AnswerSummary(), blake2b(digest_size=16)
        with_statements: set[str] = set()
        for row in self:
            summary.rows += 1
            if isinstance(row, Reject):
                summary.rejects += 1
                summary.first_reject = summary.first_reject or row
                continue
            summary.answers += 1
            summary.models[row.model] += 1
            summary.questions.add(row.question_id)
            summary.with_statements += bool(row.must_have or row.nice_to_have)
            with_statements |= {normalized_question(row.question)} & self.statements.rows.keys()
            digest.update(repr(row).encode())
        if not summary.answers:
            places, rejects = ", ".join(map(_address, self.sources)), filter(None, [summary.first_reject])
            raise ValueError(no_usable_row(places, "answer", _ANSWER_KEYS, list(rejects)))
        summary.statements, summary.digest = len(with_statements), digest.hexdigest()
        return summary


def open_answers(addresses: Sequence[str], statements: ReferenceStatements) -> CheckedAnswers:
    """Open files of answers and finished runs of evaluate or evaluate-rag.

    A row of a file has `question` and `answer` (or prediction, response; a blank answer counts as failed). Optional are
    `id`, `model` (else the name of the file, without the dataset's that it begins with), `dataset` (else that of the
    references), `type`, `setting`, `set_id`, `drug`, and `references` (or reference, ground_truths, ground_truth,
    gold_answer). Raises StorageError for another file, another run, and a run that is not complete.
    """
    sources: list[Location | RunDirectory] = []
    for address in addresses:
        location = Location(address)
        if not (location / "run.json").exists():
            check_rows_file(location, "--predictions")
            sources.append(location)
            continue
        run = RunDirectory.open(address)
        info = run.info()
        if info["job"] not in ("evaluate", "evaluate_rag"):
            needed = "--predictions takes one of evaluate or evaluate-rag"
            raise StorageError(f"{address} is a run of {info['job']}; {needed}")
        if not run.complete:
            raise StorageError(f"{address} is {info['status']}, with answers missing; repeat its command to finish it")
        sources.append(run)
    return CheckedAnswers(sources, statements)


def _address(source: Location | RunDirectory) -> str:
    return str(source.root if isinstance(source, RunDirectory) else source)
