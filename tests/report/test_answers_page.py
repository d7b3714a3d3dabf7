"""The page of all answers of an evaluation, by the data that its script reads."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from lxml import html as lxml_html

from fdarx_core.records import Equivalence, Grade, Passage, Prediction, QuestionAnswer
from fdarx_core.report.answers_page import answers_page, kind_of
from fdarx_core.report.traces import evaluation_trace, trace_text
from fdarx_core.storage import RunDirectory, read_records, write_records
from tests.report.synthetic_evaluation import BROKEN, MODELS, make_evaluation

Row = TypeVar("Row")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & 'dose'"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return make_evaluation(tmp_path_factory.mktemp("evaluation") / "run")


@pytest.fixture(scope="module")
def answers(run: RunDirectory) -> list[dict[str, Any]]:
    return answers_of(answers_page(run))


def unpacked(page: str, name: str) -> Any:
    tree: Any = lxml_html.document_fromstring(page)
    text = tree.get_element_by_id(name).text_content()
    return json.loads(gzip.decompress(b64decode(text)))


def answers_of(page: str) -> list[dict[str, Any]]:
    """The answers of a page as a reader sees them when all are opened."""
    table = unpacked(page, "table")
    columns, values, starts = table["columns"], table["values"], table["starts"]
    found: list[dict[str, Any]] = []
    for at, start in enumerate(starts):
        block = unpacked(page, f"details-{at}")
        for place, details in enumerate(block["rows"]):
            row = start + place
            fields = {name: values[name][columns[name][row]] for name in values}
            question = dict(
                zip(
                    ("question_id", "question", "gold_answer", "drug", "topic", "set_id"),
                    table["questions"][columns["question"][row]],
                    strict=True,
                )
            )
            shown = {"passages": block["passages"], **details, **question, **fields}
            found.append({"id": columns["id"][row], "answer": columns["answer"][row], **shown})
    assert len(found) == len(columns["id"])
    return found


def rows_of(run: RunDirectory, folder: str, record: type[Row]) -> list[Row]:
    return [row for part in run.parts(folder) for row in read_records(part, record)]


def test_every_answer_is_there_with_its_verdict(run: RunDirectory, answers: list[dict[str, Any]]) -> None:
    types = {one.id: one.type for one in rows_of(run, "questions", QuestionAnswer)}
    right: set[str] = set()
    everything: set[str] = set()
    for model in [*MODELS, BROKEN]:
        grades = {one.prediction_id: one.outcome for one in rows_of(run, f"grades/{model}", Grade)}
        for one in rows_of(run, f"predictions/{model}", Prediction):
            everything.add(one.id)
            if one.outcome == "refused" if types[one.question_id] == "refusal" else grades[one.id] == "correct":
                right.add(one.id)
    assert Counter(one["id"] for one in answers) == Counter(everything)
    assert {one["id"] for one in answers if one["kind"] in ("Correct answer", "Right refusal")} == right != set()
    assert {one["kind"] for one in answers} >= {
        "Incorrect answer",
        "False refusal",
        "Answer to an unanswerable question",
    }


def test_answers_show_all_that_a_reviewer_needs(run: RunDirectory, answers: list[dict[str, Any]]) -> None:
    predictions = {one.id: one for model in MODELS for one in rows_of(run, f"predictions/{model}", Prediction)}
    questions = {one.id: one for one in rows_of(run, "questions", QuestionAnswer)}
    texts = {(one.set_id, one.marker): one.text for one in rows_of(run, "passages", Passage)}
    for one in answers:
        if (said := predictions.get(one["id"])) is not None:
            question = questions[said.question_id]
            assert (one["question"], one["gold_answer"]) == (question.question, question.answer)
            assert one["answer"] == (said.answer if said.outcome == "answered" else said.text)
            assert one["finding"]
        for marker, _, text, set_id in one["passages"]:
            assert texts[set_id, marker] == text


def test_evidence_tells_retrieval_from_reading_failures(run: RunDirectory, answers: list[dict[str, Any]]) -> None:
    predictions = {one.id: one for model in MODELS for one in rows_of(run, f"predictions/{model}", Prediction)}
    questions = {one.id: one for one in rows_of(run, "questions", QuestionAnswer)}
    same = {one.question_id: set(one.members) for one in rows_of(run, "equivalences", Equivalence)}
    checked: Counter[str] = Counter()
    for item in answers:
        said = predictions.get(item["id"])
        if said is None or item["kind"] not in ("Incorrect answer", "False refusal") or said.setting != "retrieved":
            continue
        question = questions[said.question_id]
        found = set(question.gold_passages) & set(said.shown)
        if same.get(question.id, set()) & set(said.shown):
            continue
        expected = "Gold shown: a reading failure" if len(found) == len(question.gold_passages) else (
            "Gold shown in part" if found else "Gold not shown: a retrieval failure"
        )  # fmt: skip
        assert item["evidence"] == expected
        checked[expected] += 1
    assert len(checked) == 3


def changed_answer(run: RunDirectory, question: QuestionAnswer, cited: list[int], grade: dict[str, str]) -> Any:
    """The entry of a question that is answered with these citations in the full label, and graded so."""
    model = next(iter(MODELS))
    predictions, grades = run.parts(f"predictions/{model}")[0], run.parts(f"grades/{model}")[0]
    said = list(read_records(predictions, Prediction))
    ours = next(one for one in said if (one.question_id, one.setting) == (question.id, "full_label"))
    changed = replace(ours, outcome="answered", answer="wrong", cited=cited, cited_unknown=1)
    write_records(predictions, [changed if one.id == ours.id else one for one in said], Prediction)
    graded = [
        replace(one, **{"outcome": "incorrect", **grade}) if one.prediction_id == ours.id else one  # type: ignore[arg-type]
        for one in read_records(grades, Grade)
    ]
    write_records(grades, graded, Grade)
    return next(one for one in answers_of(answers_page(run)) if one["id"] == ours.id)


def first_question(run: RunDirectory, gold: int) -> QuestionAnswer:
    return next(one for one in rows_of(run, "questions", QuestionAnswer) if len(one.gold_passages) == gold)


def test_cited_passages_say_whether_they_are_gold_or_state_the_same(tmp_path: Path) -> None:
    made = make_evaluation(tmp_path / "run")
    question = next(iter(rows_of(made, "questions", QuestionAnswer)))
    graded = {"reason": "number_contradicted", "detail": "5 mg, not 7 mg", "judge": "gpt-4o"}
    item = changed_answer(made, question, [*question.gold_passages, 5, 7], graded)
    assert [mark for _, mark, _ in item["cited"]["passages"]] == ["gold", "same", ""]
    assert item["cited"]["passages"][1][2] == "states the same as PASSAGE_0000 (near duplicate)"
    assert item["finding"] == "The judge “gpt-4o” found it incorrect: a number differs from the gold answer's."
    assert item["detail"] == "“5 mg, not 7 mg”"
    assert (
        "It cites 3 passages: 1 gold, 1 that states the same, 1 other. It also names 1 passage that it was not shown."
        in item["notes"]
    )


def test_a_reason_without_a_known_name_is_in_the_words_of_the_judge(tmp_path: Path) -> None:
    made = make_evaluation(tmp_path / "run")
    question = first_question(made, 1)
    graded = {"reason": "unnamed", "detail": "dose_error: another number", "judge": "gpt-4o"}
    item = changed_answer(made, question, [], graded)
    assert (item["reason"], item["detail"]) == ("In the judge’s own words", "“dose_error: another number”")
    shown = trace_text(evaluation_trace(made, question.id))
    assert "by gpt-4o (dose_error: another number)" in shown and "unnamed" not in shown


@pytest.mark.parametrize(
    ("reason", "detail", "expected"),
    [
        ("number_missing", "30 mL/min", "Missing: 30 mL/min"),
        ("unsupported_number", "40 mg", "Not in the gold answer: 40 mg"),
        ("number_contradicted", "5 mg instead of 7 mg", "5 mg instead of 7 mg"),
    ],
)
def test_the_baselines_details_say_what_they_are(tmp_path: Path, reason: str, detail: str, expected: str) -> None:
    made = make_evaluation(tmp_path / "run")
    graded = {"reason": reason, "detail": detail, "judge": "baseline"}
    assert changed_answer(made, first_question(made, 2), [], graded)["detail"] == expected


def test_gold_passages_that_are_not_cited_are_told(tmp_path: Path) -> None:
    made = make_evaluation(tmp_path / "run")
    question = first_question(made, 2)
    one = changed_answer(made, question, question.gold_passages[:1], {"reason": "key_content_missing"})
    assert any(
        note.startswith("It cites 1 passage: 1 gold. 1 of the 2 gold passages is not cited.") for note in one["notes"]
    )


def test_a_page_of_a_large_evaluation_has_all_answers_on_some_labels(run: RunDirectory) -> None:
    page = answers_page(run, most_answers=400)
    shown = answers_of(page)
    everything = answers_of(answers_page(run))
    labels = {one["set_id"] for one in shown}
    assert 0 < len(shown) <= 400 < len(everything)
    assert {one["id"] for one in shown} == {one["id"] for one in everything if one["set_id"] in labels}
    assert f"The evaluation has {len(everything):,} answers, more than a page can show" in page
    assert answers_page(run, most_answers=400) == page


def test_text_of_labels_and_models_cannot_end_the_page(tmp_path: Path) -> None:
    made = make_evaluation(tmp_path / "run", labels=3)
    for model in MODELS:
        for part in made.parts(f"predictions/{model}"):
            rows = [replace(one, answer=HOSTILE, text=HOSTILE) for one in read_records(part, Prediction)]
            write_records(part, rows, Prediction)
    page = answers_page(made)
    assert HOSTILE not in page and {one["answer"] for one in answers_of(page)} >= {HOSTILE}


@pytest.mark.parametrize(
    ("type_", "outcome", "grade", "expected"),
    [
        ("factual", "answered", "correct", "correct"),
        ("factual", "answered", "incorrect", "incorrect"),
        ("factual", "answered", "not_attempted", "not_attempted"),
        ("factual", "refused", "not_attempted", "false_refusal"),
        ("refusal", "refused", "not_attempted", "declined"),
        ("refusal", "answered", "incorrect", "hallucinated"),
        ("refusal", "unparsed", "unscored", "unparsed"),
        ("factual", "failed", "unscored", "failed"),
        ("factual", "answered", "unscored", "unscored"),
        ("factual", "answered", "", "unscored"),
    ],
)
def test_kinds_of_answers(type_: str, outcome: str, grade: str, expected: str) -> None:
    assert kind_of(type_, outcome, grade) == expected
