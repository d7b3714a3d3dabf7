"""Answers to be checked for factuality, from files and runs, and the gold statements on their questions."""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NoReturn

from fdarx_core.records import CheckedAnswer, Prediction, QuestionAnswer, RagAnswer, RagQuestion, Reject, content_id
from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.run_directory import RunDirectory
from fdarx_core.storage.tables import check_rows_file, read_records, read_rows

_WORDS = re.compile(r"[^\W_]+")


def normalized_question(question: str) -> str:
    """By which questions are the same: their words and numbers, in any case, spelling of signs and punctuation."""
    return " ".join(_WORDS.findall(unicodedata.normalize("NFKC", question).casefold()))


def text_at(row: dict[str, Any], *keys: str) -> str:
    """The first of the keys' values that is a text or a whole number and not blank; else ""."""
    values = (row.get(key) for key in keys)
    usable = (str(one).strip() for one in values if isinstance(one, str | int) and not isinstance(one, bool))
    return next(filter(None, usable), "")


def texts_at(row: dict[str, Any], *keys: str) -> list[str]:
    """The texts under the first of the keys that has any: a text, or those of a list."""
    for key in keys:
        value = row.get(key)
        listed = value if isinstance(value, list) else [value]
        if found := [text.strip() for text in listed if isinstance(text, str) and text.strip()]:
            return found
    return []


def reject(error: ValueError, stage: str, row_id: str, place: str) -> Reject:
    """Of an error that says "reason: detail"."""
    reason, _, detail = str(error).partition(": ")
    return Reject(row_id or place, stage, reason, detail, source=place)


def nothing_in(places: str, what: str, needed: str, rejects: list[Reject]) -> NoReturn:
    """Raises ValueError for files of which no row can be used."""
    first = f"the first row: {rejects[0].source}: {rejects[0].reason}, {rejects[0].detail}" if rejects else "no row"
    raise ValueError(f"{places} holds no {what} ({first}); a row needs {needed}")


GOLD_STAGE = "gold"
_NEEDED = "Question, and Must_have, Nice_to_have or Free_form_answer"


@dataclass(frozen=True, slots=True)
class GoldRow:
    """What is known of one question. `reference` is an expert's answer, "" where there is none."""

    question: str
    dataset: str
    reference: str
    must_have: list[str]
    nice_to_have: list[str]


@dataclass(slots=True)
class GoldStatements:
    """Gold by question (`normal`), the names of its files, and the rows that are none."""

    rows: Mapping[str, GoldRow] = field(default_factory=dict)
    datasets: Sequence[str] = ()
    rejects: Sequence[Reject] = ()

    def added_to(self, answer: CheckedAnswer) -> CheckedAnswer:
        """The answer with the statements on its question, if any; the expert's answer is one more reference."""
        known = self.rows.get(normalized_question(answer.question))
        if known is None:
            return answer
        more = [known.reference] if known.reference and known.reference not in answer.references else []
        return replace(
            answer,
            dataset=answer.dataset or known.dataset,
            references=[*answer.references, *more],
            must_have=known.must_have,
            nice_to_have=known.nice_to_have,
        )

    def of_file(self, name: str) -> tuple[str, str]:
        """Dataset and model that a file of answers is named after, DATASET.MODEL where DATASET is a file of gold."""
        for dataset in self.datasets:
            if name.startswith(f"{dataset}."):
                return dataset, name.removeprefix(f"{dataset}.")
        return "", name


def read_gold(addresses: Sequence[str]) -> GoldStatements:
    """Files with MedLFQA's fields (Question, Free_form_answer, Must_have, Nice_to_have, in any case of letters).

    A dataset is named after its file. Of two rows on the same question the first stands, the other is a reject. Raises
    `StorageError` where a file can't be read, `ValueError` where none holds a usable row. Source: MedLFQA (Jeong et al.
    2024), FAS §4.
    """
    rows: dict[str, GoldRow] = {}
    rejects: list[Reject] = []
    names: list[str] = []
    for location in map(Location, addresses):
        check_rows_file(location, "--gold")
        names.append(location.name.removesuffix(location.suffix))
        for one in _of_file(location, names[-1], rows):
            if isinstance(one, Reject):
                rejects.append(one)
            else:
                rows[normalized_question(one.question)] = one
    if addresses and not rows:
        nothing_in(", ".join(addresses), "gold", _NEEDED, rejects)
    return GoldStatements(rows, names, rejects)


def _of_file(location: Location, dataset: str, known: Mapping[str, GoldRow]) -> Iterator[GoldRow | Reject]:
    for place, row, fault in read_rows(location, _NEEDED):
        lower = {str(key).lower(): value for key, value in row.items()}
        try:
            one = _gold(lower, fault, dataset)
            if normalized_question(one.question) in known:
                raise ValueError("duplicate: an earlier row has the same question")
            yield one
        except ValueError as error:
            yield reject(error, GOLD_STAGE, text_at(lower, "id"), place)


def _gold(row: dict[str, Any], fault: str, dataset: str) -> GoldRow:
    """Raises `ValueError("reason: detail")`."""
    if fault:
        raise ValueError(fault)
    question, reference = text_at(row, "question"), text_at(row, "free_form_answer")
    if not normalized_question(question):
        raise ValueError("no_question: the key Question holds no text")
    must_have, nice_to_have = texts_at(row, "must_have"), texts_at(row, "nice_to_have")
    if not (reference or must_have or nice_to_have):
        raise ValueError("no_gold: Must_have, Nice_to_have and Free_form_answer hold no text")
    return GoldRow(question, dataset, reference, must_have, nice_to_have)


@dataclass(slots=True)
class AnswerSummary:
    """Counts over all rows.

    `gold` counts the gold's questions that some answer is on. `digest` stands for all answers with what is known of
    their questions, in their order.
    """

    rows: int = 0
    answers: int = 0
    rejects: int = 0
    with_gold: int = 0
    gold: int = 0
    models: Counter[str] = field(default_factory=Counter)
    questions: set[str] = field(default_factory=set)
    first_reject: Reject | None = None
    digest: str = ""

    def chosen(self, sample: int | None, seed: int) -> set[str]:
        """So many question ids, drawn by the seed; all where there are no more."""
        if sample is None:
            return self.questions
        return set(heapq.nsmallest(sample, self.questions, key=lambda one: content_id(str(seed), one)))


def summarize_answers(rows: Iterable[CheckedAnswer | Reject], gold: GoldStatements) -> AnswerSummary:
    """One pass; of each question its id alone is kept."""
    census, digest = AnswerSummary(), blake2b(digest_size=16)
    matched: set[str] = set()
    for row in rows:
        census.rows += 1
        if isinstance(row, Reject):
            census.rejects += 1
            census.first_reject = census.first_reject or row
            continue
        census.answers += 1
        census.models[row.model] += 1
        census.questions.add(row.question_id)
        census.with_gold += bool(row.must_have or row.nice_to_have)
        matched |= {normalized_question(row.question)} & gold.rows.keys()
        digest.update(repr(row).encode())
    census.gold = len(matched)
    census.digest = digest.hexdigest()
    return census


STAGE = "predictions"
NEEDED = "question and answer"

_ANSWER = ("answer", "prediction", "response")
_REFERENCES = ("references", "reference", "ground_truths", "ground_truth", "gold_answer")


def answers_of_file(location: Location, gold: GoldStatements) -> Iterator[CheckedAnswer | Reject]:
    """The file's rows in their order, each as an answer or a reject.

    A row has `question` and `answer` (or prediction, response; a blank one has failed); perhaps `id`, `model` (else the
    file's name, less the gold's that it begins with), `dataset` (else the gold's), `type`, `setting`, `set_id`, `drug`,
    `references` (or reference, ground_truths, ground_truth, gold_answer).
    """
    dataset, model = gold.of_file(location.name.removesuffix(location.suffix))
    for place, row, fault in read_rows(location, NEEDED, blank=_ANSWER):
        try:
            yield _answer(row, fault, model, dataset)
        except ValueError as error:
            yield reject(error, STAGE, text_at(row, "id"), place)


def _answer(row: dict[str, Any], fault: str, model: str, dataset: str) -> CheckedAnswer:
    """Raises `ValueError("reason: detail")`."""
    if fault:
        raise ValueError(fault)
    question = text_at(row, "question")
    if not normalized_question(question):
        raise ValueError("no_question: the key question holds no text")
    said = next((row[key] for key in _ANSWER if row.get(key) is not None), None)
    if not isinstance(said, str):
        raise ValueError(f"no_answer: none of {', '.join(_ANSWER)} holds a text")
    set_id = text_at(row, "set_id")
    question_id = content_id("checked_question", normalized_question(question), set_id)
    named = text_at(row, "model") or model, text_at(row, "dataset") or dataset, text_at(row, "setting")
    return CheckedAnswer(
        id=content_id("checked_answer", *named, text_at(row, "id") or question_id),
        question_id=question_id,
        question=question,
        answer=said,
        model=named[0],
        dataset=named[1],
        setting=named[2],
        type=text_at(row, "type"),
        cluster=set_id or question_id,
        set_id=set_id,
        drug=text_at(row, "drug"),
        outcome="answered" if said.strip() else "failed",
        references=texts_at(row, *_REFERENCES),
    )


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


@dataclass(frozen=True, slots=True)
class CheckedAnswers:
    """All rows of the sources, each an answer or a reject; every pass reads them anew."""

    sources: Sequence[Location | RunDirectory]
    gold: GoldStatements = field(default_factory=GoldStatements)

    def __iter__(self) -> Iterator[CheckedAnswer | Reject]:
        seen: set[str] = set()
        for source in self.sources:
            for row in self._rows(source):
                if isinstance(row, Reject):
                    yield row
                elif row.id in seen:
                    yield _duplicate(row, source)
                else:
                    seen.add(row.id)
                    yield self.gold.added_to(row)

    def census(self) -> AnswerSummary:
        """Raises ValueError where no row is an answer, StorageError where a source can't be read."""
        census = summarize_answers(self, self.gold)
        if not census.answers:
            first = [census.first_reject] if census.first_reject else []
            nothing_in(", ".join(map(_address, self.sources)), "answer", NEEDED, first)
        return census

    def _rows(self, source: Location | RunDirectory) -> Iterator[CheckedAnswer | Reject]:
        return answers_of_run(source) if isinstance(source, RunDirectory) else answers_of_file(source, self.gold)


def open_answers(addresses: Sequence[str], gold: GoldStatements) -> CheckedAnswers:
    """Files of answers (`answers_of_file`), and finished runs of evaluate or evaluate-rag. Raises `StorageError`."""
    return CheckedAnswers([_opened(address) for address in addresses], gold)


def _opened(address: str) -> Location | RunDirectory:
    location = Location(address)
    if (location / "run.json").exists():
        return open_answered(address)
    check_rows_file(location, "--predictions")
    return location


def _duplicate(row: CheckedAnswer, source: Location | RunDirectory) -> Reject:
    detail = f"an earlier row has an answer of {row.model} to the same question, or the same id"
    return Reject(row.id, STAGE, "duplicate", detail, row.set_id, _address(source))


def _address(source: Location | RunDirectory) -> str:
    return str(source.root if isinstance(source, RunDirectory) else source)
