"""`fdarx evaluate` against a real vLLM engine. Its random weights know nothing; who is asked what, how much of a label
is shown, what the engine's prefix cache saves, and how it all adds up do not depend on that."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fdarx_core.evaluation.predictions import ANSWER_TASKS
from fdarx_core.evaluation.settings import FULL_LABEL, PROMPT_TOKENS, RETRIEVED
from fdarx_core.llm import ResponseStore
from fdarx_core.records import Grade, LabelSummary, Prediction, QuestionAnswer, Response, SettingProgress
from fdarx_core.storage import Location
from tests.engine.server import CACHED_TOKENS, CONTEXT, MODEL
from tests.engine.test_engine import counted
from tests.jobs.evaluating import by_type, cells, evaluate, models_file, reopen, rows_of

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

Row = TypeVar("Row")
SAMPLE = ("--sample", 2)
ANSWER_TOKENS, GRADE_TOKENS, LONG_TOKENS = 48, 160, 64
"""The most of a reply: so few that some replies are cut short, but most are not."""
LONG_LABELS, QUESTIONS_A_LABEL = 16, 10
LONG_CHARACTERS = 44_000
"""Of a label's text: over 10,000 tokens, more than the engine's context."""
COUNTERS = ("prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits", "request_success")
NO_ANSWER = {"truncated_reply", "empty_reply", "no_answer"}


@dataclass(frozen=True)
class Evaluated:
    """A run, and how far the engine's own counters went while it was made."""

    out: Path
    info: Mapping[str, Any]
    cells: Mapping[tuple[str, str, str], SettingProgress]
    engine: Mapping[str, float]

    def rows(self, kind: str, record: type[Row]) -> list[Row]:
        return rows_of(self.out, kind, record)

    def in_cells(self, column: str) -> int:
        return sum(getattr(cell, column) for cell in self.cells.values())

    def asked(self, column: str) -> int:
        """A column of the ledger, summed over what the engine was asked."""
        return sum(row[column] for row in self.info["asked"] if row["endpoint"] != "baseline")

    def responses(self) -> dict[str, Response]:
        store = ResponseStore(Location(self.out / "responses"))
        return store.get(store.index())


def model(name: str, max_tokens: int, **more: Any) -> dict[str, Any]:
    """An entry of a models file. Random weights say the same for ever at temperature 0; at 1 they end."""
    return {"name": name, "model": MODEL, "max_tokens": max_tokens, "sampling": {"temperature": 1.0}, **more}


def evaluated(engine: str, benchmark: Path, folder: Path, models: list[dict[str, Any]], *more: object) -> Evaluated:
    """A run as a user makes it, in `folder`; the same call again is the same command again."""
    file, out = models_file(folder, f"{engine}/v1", *models), folder / "run"
    before = {name: counted(engine, name) for name in COUNTERS}
    done = evaluate(benchmark, out, "--models", file, *more)
    assert done.returncode == 0, done.stderr
    engine_did = {name: counted(engine, name) - before[name] for name in COUNTERS}
    return Evaluated(out, json.loads((out / "run.json").read_text()), cells(out), engine_did)


@pytest.fixture(scope="module")
def answers(engine: str, example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """All settings, graded by rules."""
    folder = tmp_path_factory.mktemp("answers")
    return evaluated(engine, example_build, folder, [model("small", ANSWER_TOKENS)], *SAMPLE)


@pytest.fixture(scope="module")
def judged(engine: str, example_build: Path, answers: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """The same answers, graded by the engine."""
    models = [model("small", ANSWER_TOKENS), model("judge", GRADE_TOKENS)]
    options = (*SAMPLE, "--judge", "judge", "--reuse", answers.out)
    return evaluated(engine, example_build, tmp_path_factory.mktemp("judged"), models, *options)


@pytest.fixture(scope="module")
def long_labels(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark of labels that exceed the engine's context, as many as exceed its cache even when cut to fit."""
    folder = tmp_path_factory.mktemp("long")
    asked = _lines(example_build / "benchmark" / "qa.jsonl")
    number_of = Counter(row["set_id"] for row in asked)
    labels = _lines(example_build / "benchmark" / "labels.jsonl")
    labels = [label for label in labels if number_of[label["set_id"]] >= QUESTIONS_A_LABEL]
    with (folder / "labels.jsonl").open("w") as texts, (folder / "qa.jsonl").open("w") as questions:
        for number, label in enumerate(islice(cycle(labels), LONG_LABELS)):
            set_id = f"00000000-0000-4000-8000-{number:012d}"
            long = {"set_id": set_id, "drug_name": label["drug_name"], "chunks": _long(number, labels)}
            texts.write(json.dumps(long) + "\n")
            own = [row for row in asked if row["set_id"] == label["set_id"]][-QUESTIONS_A_LABEL:]
            for row in own:
                questions.write(json.dumps({**row, "set_id": set_id, "qid": f"{row['qid']}-{number}"}) + "\n")
    return folder


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _long(number: int, labels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A label's pieces, then the next labels'; the first tells its number, so that no two labels begin alike."""
    pieces = [piece for label in islice(cycle(labels), number, number + len(labels)) for piece in label["chunks"]]
    chosen, size = list[dict[str, Any]](), 0
    for piece in pieces:
        if size >= LONG_CHARACTERS:
            break
        mark = "" if chosen else f"Edition {number}. "
        chosen.append({**piece, "doc_chunk_index": len(chosen), "text": mark + piece["text"]})
        size += len(piece["text"])
    return chosen


@pytest.fixture(scope="module")
def cut(engine: str, long_labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """Whole labels asked of a model whose context is told, and of one whose is not."""
    models = [model("told", LONG_TOKENS, context_length=CONTEXT), model("untold", LONG_TOKENS)]
    folder = tmp_path_factory.mktemp("cut")
    return evaluated(engine, long_labels, folder, models, "--settings", FULL_LABEL)


def test_every_due_question_has_a_prediction(answers: Evaluated) -> None:
    questions = answers.rows("questions", QuestionAnswer)
    everything = {question.id for question in questions}
    answerable = {question.id for question in questions if question.type != "refusal"}
    predictions = answers.rows("predictions/small", Prediction)
    assert {setting for _, setting, _ in answers.cells} == ANSWER_TASKS.keys()
    for (_, setting, retriever), cell in answers.cells.items():
        mine = [row for row in predictions if (row.setting, row.retriever) == (setting, retriever)]
        due = everything if setting in (FULL_LABEL, RETRIEVED) else answerable
        assert sorted(row.question_id for row in mine) == sorted(due)
        outcomes = Counter(row.outcome for row in mine)
        assert (cell.status, cell.due) == ("done", len(due))
        assert outcomes == {
            name: getattr(cell, name) for name in ("answered", "refused", "unparsed", "failed") if getattr(cell, name)
        }
    assert len(predictions) == answers.in_cells("due")


def test_what_is_no_answer_says_why(answers: Evaluated) -> None:
    responses = answers.responses()
    predictions = answers.rows("predictions/small", Prediction)
    for row in predictions:
        ended = responses[row.response_key].finish_reason
        assert row.text == responses[row.response_key].text
        assert (row.reason == "truncated_reply") == (ended == "length")
        assert (row.outcome == "unparsed") == (row.reason != "")
    reasons = Counter(row.reason for row in predictions)
    assert reasons.keys() - {""} <= NO_ANSWER
    assert 0 < reasons["truncated_reply"] < 0.5 * len(predictions)


def test_tokens_are_the_engines(answers: Evaluated) -> None:
    for ours, engines in (
        ("prompt_tokens", "prompt_tokens"),
        ("cached_tokens", "prefix_cache_hits"),
        ("completion_tokens", "generation_tokens"),
    ):
        assert answers.in_cells(ours) == answers.asked(ours) == answers.engine[engines] > 0, ours
    assert answers.in_cells("due") == answers.asked("requests") == answers.engine["request_success"]


@pytest.mark.parametrize("stopped", [False, True])
def test_the_same_command_again_asks_nothing(
    engine: str, example_build: Path, answers: Evaluated, stopped: bool
) -> None:
    """Neither of a complete run nor of one that was stopped when all was answered."""
    if stopped:
        reopen(answers.out)
    again = evaluated(engine, example_build, answers.out.parent, [model("small", ANSWER_TOKENS)], *SAMPLE)
    assert set(again.engine.values()) == {0}
    assert (again.cells, again.info["asked"]) == (answers.cells, answers.info["asked"])


def test_only_grades_are_asked_about_answers_taken_over(answers: Evaluated, judged: Evaluated) -> None:
    assert judged.rows("predictions/small", Prediction) == answers.rows("predictions/small", Prediction)
    grades = [grade for grade in judged.rows("grades/small", Grade) if grade.judge == "judge"]
    assert {row["task"] for row in judged.info["asked"]} == {"grade_answer"}
    distinct = {grade.response_key for grade in grades}
    assert len(distinct) == judged.asked("requests") == judged.engine["request_success"]
    assert judged.asked("prompt_tokens") == judged.engine["prompt_tokens"]


def test_every_grade_is_a_verdict_or_says_why_not(judged: Evaluated) -> None:
    grades = judged.rows("grades/small", Grade)
    predictions = {row.id: row for row in judged.rows("predictions/small", Prediction)}
    assert sorted(grade.prediction_id for grade in grades) == sorted(predictions)
    by_model = Counter((grade.outcome, grade.reason) for grade in grades if grade.judge == "judge")
    assert {outcome for outcome, _ in by_model} == {"correct", "incorrect", "not_attempted", "unscored"}
    assert {reason for outcome, reason in by_model if outcome == "unscored"} == {"truncated_reply"}
    assert by_model["unscored", "truncated_reply"] < 0.5 * by_model.total()
    for grade in grades:
        read = predictions[grade.prediction_id].outcome in ("answered", "refused")
        assert read or (grade.outcome, grade.reason, grade.judge) == ("unscored", "unparsed_answer", "rule")


def test_accuracy_rests_on_verdicts_alone(judged: Evaluated) -> None:
    answerable = {row.id for row in judged.rows("questions", QuestionAnswer) if row.type != "refusal"}
    predictions = {row.id: row for row in judged.rows("predictions/small", Prediction)}
    figures = by_type(judged.out)
    assert len(judged.cells) == len(ANSWER_TASKS)
    for (_, setting, retriever), cell in judged.cells.items():
        mine = [
            grade for grade in judged.rows("grades/small", Grade) if predictions[grade.prediction_id].setting == setting
        ]
        assert cell.unscored == sum(grade.outcome == "unscored" for grade in mine)
        of_answerable = Counter(grade.outcome for grade in mine if grade.question_id in answerable)
        scored = of_answerable.total() - of_answerable["unscored"]
        figure = figures["small", setting, retriever, "accuracy", "answerable"]
        assert (figure.rows, figure.unscored) == (scored, of_answerable["unscored"])
        assert figure.value == pytest.approx(of_answerable["correct"] / scored)


@pytest.mark.nightly
def test_without_the_context_length_the_engine_refuses_what_is_too_long(cut: Evaluated) -> None:
    cell = cut.cells["untold", FULL_LABEL, ""]
    assert (cell.status, cell.failed, cell.unscored) == ("done", cell.due, cell.due)
    refused = cut.rows("predictions/untold", Prediction)
    assert {(row.outcome, row.reason, row.cuts) for row in refused} == {("failed", "context_too_long", 0)}


@pytest.mark.nightly
def test_labels_are_cut_to_the_context_from_their_end(cut: Evaluated) -> None:
    assert cut.cells["told", FULL_LABEL, ""].failed == 0
    assert_cut(cut, "told", CONTEXT - LONG_TOKENS, least=0.75)


def assert_cut(run: Evaluated, name: str, most: int, least: float) -> None:
    """Each label lost whole passages at its end, no prompt has more tokens than `most`, or less than a share of it."""
    passages = {row.set_id: row.passages for row in run.rows("subjects", LabelSummary)}
    predictions = run.rows(f"predictions/{name}", Prediction)
    assert predictions
    for row in predictions:
        assert row.shown == list(range(len(row.shown)))
        assert row.cuts == passages[row.set_id] - len(row.shown) > 0
        assert least * most <= row.prompt_tokens <= most
    assert len({(row.set_id, row.cuts) for row in predictions}) == len(passages)


@pytest.mark.nightly
def test_questions_of_a_label_share_its_place_in_the_cache(cut: Evaluated) -> None:
    first = {row.set_id: row.prompt_tokens for row in cut.rows("predictions/told", Prediction)}
    assert sum(first.values()) > 1.3 * CACHED_TOKENS, "all labels would fit, and any order would do"
    cell = cut.cells["told", FULL_LABEL, ""]
    assert (cell.prompt_tokens, cell.cached_tokens) == (
        cut.engine["prefix_cache_queries"],
        cut.engine["prefix_cache_hits"],
    )
    assert cell.due == LONG_LABELS * QUESTIONS_A_LABEL
    assert 1 - cell.cached_tokens / cell.prompt_tokens < 0.12, "each label is computed once, not for each question"


@pytest.mark.nightly
def test_with_its_tokenizer_a_model_is_shown_as_much_as_fits(
    engine: str, long_labels: Path, cut: Evaluated, tmp_path: Path
) -> None:
    pytest.importorskip("tokenizers")
    told = model("told", LONG_TOKENS, context_length=CONTEXT, tokenizer=_directory(engine))
    exact = evaluated(engine, long_labels, tmp_path, [told], "--settings", FULL_LABEL, "--sample", 2)
    assert exact.in_cells("failed") == 0
    assert_cut(exact, "told", CONTEXT - LONG_TOKENS, least=1 - 2 * PROMPT_TOKENS / CONTEXT)
    by_estimate = {row.question_id: row.prompt_tokens for row in cut.rows("predictions/told", Prediction)}
    for row in exact.rows("predictions/told", Prediction):
        assert row.prompt_tokens > by_estimate[row.question_id]


def _directory(engine: str) -> str:
    """Where the engine has its model from."""
    with urllib.request.urlopen(f"{engine}/v1/models", timeout=30) as reply:
        return str(json.load(reply)["data"][0]["root"])
