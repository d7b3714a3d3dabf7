"""Answers and gold statements, in the shapes in which people and other jobs leave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.records import CheckedAnswer, Prediction, QuestionAnswer, RagAnswer, RagQuestion, Reject
from fdarx_core.storage import Location, RunDirectory, StorageError, write_records, write_table
from fdarx_core.storage.answers import Gold, open_answers, read_gold
from fdarx_core.storage.answers.rows import normal

ROWS: list[dict[str, Any]] = [
    {"question": "Is it safe?", "answer": "It is.", "model": "m", "drug": "Examplol", "references": "Yes."},
    {"question": "How much?", "answer": "Take 5 mg.", "model": "m", "type": "numeric", "dataset": "d"},
]
GOLD: list[dict[str, Any]] = [
    {"Question": "is it SAFE", "Free_form_answer": "It is safe.", "Must_have": ["It is safe"], "Nice_to_have": []},
    {"Question": "Who?", "Free_form_answer": "Nobody.", "Must_have": [], "Nice_to_have": ["Nobody does"]},
]


def saved(folder: Path, name: str, rows: list[Any]) -> str:
    path = folder / name
    if path.suffix == ".parquet":
        keys = list(dict.fromkeys(key for row in rows for key in row))
        write_table(Location(path), pa.Table.from_pylist([{**dict.fromkeys(keys), **row} for row in rows]))
    elif path.suffix == ".csv":
        keys = list(dict.fromkeys(key for row in rows for key in row))
        cells = [[str(row.get(key, "")).replace('"', '""') for key in keys] for row in rows]
        path.write_text("\r\n".join(",".join(f'"{cell}"' for cell in line) for line in [keys, *cells]))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return str(path)


def taken(*addresses: str, gold: Gold | None = None) -> tuple[list[CheckedAnswer], list[Reject]]:
    rows = list(open_answers(addresses, gold or Gold()))
    answers = [row for row in rows if isinstance(row, CheckedAnswer)]
    return answers, [row for row in rows if isinstance(row, Reject)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet"])
def test_every_format_gives_the_same(tmp_path: Path, name: str) -> None:
    answers, rejects = taken(saved(tmp_path, name, ROWS))
    assert rejects == []
    assert [(one.question, one.answer, one.model) for one in answers] == [
        ("Is it safe?", "It is.", "m"),
        ("How much?", "Take 5 mg.", "m"),
    ]
    first, second = answers
    assert (first.drug, first.references, first.dataset) == ("Examplol", ["Yes."], "")
    assert (second.type, second.dataset, second.references) == ("numeric", "d", [])
    assert first.cluster == first.question_id != second.question_id


def test_bad_rows_are_rejected_with_their_reason_and_nothing_vanishes(tmp_path: Path) -> None:
    rows = [
        ROWS[0],
        "{half",
        [1],
        {"answer": "To what?"},
        {"question": " ?! ", "answer": "To what?"},
        {"question": "Why?"},
        {"question": "Why?", "answer": 5},
        {**ROWS[0], "answer": "It is not."},
        {**ROWS[0], "id": 7},
        {"question": "And?", "answer": " "},
    ]
    answers, rejects = taken(saved(tmp_path, "a.jsonl", rows))
    assert [one.reason for one in rejects] == [
        "not_json", "not_an_object", "no_question", "no_question", "no_answer", "no_answer", "duplicate",
    ]  # fmt: skip
    assert len(answers) + len(rejects) == len(rows)
    assert all(one.source and one.detail and one.stage == "predictions" for one in rejects)
    assert [one.outcome for one in answers] == ["answered", "answered", "failed"]


def test_several_files_and_their_models(tmp_path: Path) -> None:
    gold = read_gold([saved(tmp_path, "kqa.jsonl", GOLD)])
    nameless = [{key: row[key] for key in ("question", "answer")} for row in ROWS]
    files = [saved(tmp_path, name, nameless) for name in ("kqa.llama-2.7b.jsonl", "kqa2.mistral.jsonl")]
    answers, rejects = taken(*files, gold=gold)
    assert rejects == []
    assert [one.model for one in answers] == ["llama-2.7b"] * 2 + ["kqa2.mistral"] * 2
    assert [one.dataset for one in answers] == ["kqa", "kqa", "kqa", ""]
    assert len({one.question_id for one in answers}) == 2 and len({one.id for one in answers}) == 4


def test_gold_is_matched_by_the_words_of_the_question(tmp_path: Path) -> None:
    gold = read_gold([saved(tmp_path, "g.jsonl", GOLD)])
    answers = open_answers([saved(tmp_path, "a.jsonl", ROWS)], gold)
    first, second = answers
    assert isinstance(first, CheckedAnswer) and isinstance(second, CheckedAnswer)
    assert (first.must_have, first.references, first.dataset) == (["It is safe"], ["Yes.", "It is safe."], "g")
    assert (second.must_have, second.nice_to_have, second.dataset) == ([], [], "d")
    census = answers.census()
    assert (census.rows, census.answers, census.with_gold, census.gold) == (2, 2, 1, 1)


def test_gold_rows_that_are_none(tmp_path: Path) -> None:
    rows: list[Any] = [*GOLD, {**GOLD[0], "Must_have": ["Else"]}, {"Question": "What?"}, {"Must_have": ["x"]}, "[]"]
    gold = read_gold([saved(tmp_path, "g.jsonl", rows)])
    assert [one.reason for one in gold.rejects] == ["duplicate", "no_gold", "no_question", "not_an_object"]
    assert len(gold.rows) + len(gold.rejects) == len(rows)
    assert gold.rows["is it safe"].must_have == ["It is safe"], "the first of two rows stands"


def test_errors_name_the_file_and_what_a_row_needs(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no/such\.jsonl is not there; --predictions"):
        open_answers(["no/such.jsonl"], Gold())
    with pytest.raises(StorageError, match=r"no/such\.jsonl is not there; --gold"):
        read_gold(["no/such.jsonl"])
    bad = saved(tmp_path, "a.jsonl", [{"question": "Why?"}])
    with pytest.raises(ValueError, match=r"a\.jsonl holds no answer \(the first row: a\.jsonl:1: no_answer"):
        open_answers([bad], Gold()).census()
    with pytest.raises(ValueError, match=r"a\.jsonl holds no gold .*no_gold"):
        read_gold([bad])


def finished(folder: Path, job: str) -> RunDirectory:
    run = RunDirectory.begin(str(folder), job=job, config={}, versions={})
    run.finish({"benchmark": {"name": "rx"}})
    return run


def test_a_run_of_evaluate(tmp_path: Path) -> None:
    run = finished(tmp_path / "ev", "evaluate")
    asked = [QuestionAnswer("q1", "factual", "factual", "", "", "s1", "Examplol", "How much?", "5 mg")]
    write_records(run.part("questions", 0), asked, QuestionAnswer)
    said = [
        Prediction("p1", "q1", "s1", "m", "closed_book", answer="5 mg", text="5 mg"),
        Prediction("p2", "q1", "s1", "m", "retrieved", "bm25", outcome="refused", answer="I can't say."),
        Prediction("p3", "q1", "s1", "m", "oracle", outcome="unparsed", text="{"),
    ]
    write_records(run.part("predictions/m", 0), said, Prediction)
    write_records(run.part("predictions/n", 0), [Prediction("p4", "q1", "s1", "n", "oracle")], Prediction)
    answers, rejects = taken(str(tmp_path / "ev"))
    assert rejects == []
    assert [(one.id, one.model, one.setting, one.outcome) for one in answers] == [
        ("p1", "m", "closed_book", "answered"),
        ("p2", "m", "retrieved/bm25", "refused"),
        ("p3", "m", "oracle", "failed"),
        ("p4", "n", "oracle", "answered"),
    ]
    assert {(one.type, one.set_id, one.drug, one.cluster, one.dataset) for one in answers} == {
        ("factual", "s1", "Examplol", "s1", "rx")
    }
    assert answers[0].references == ["5 mg"]


def test_a_run_of_evaluate_rag(tmp_path: Path) -> None:
    run = finished(tmp_path / "rag", "evaluate_rag")
    write_records(run.part("questions", 0), [RagQuestion("q1", "How long?", ["A year."], "T", "T")], RagQuestion)
    said = [RagAnswer("q1", name, "none", "m", answer="A year.") for name in ("qa_rag", "hyde")]
    write_records(run.part("answers", 0), said, RagAnswer)
    answers, _ = taken(str(tmp_path / "rag"))
    assert [(one.setting, one.cluster, one.references) for one in answers] == [
        ("qa_rag/none", "T", ["A year."]),
        ("hyde/none", "T", ["A year."]),
    ]


def test_runs_without_all_answers_are_refused(tmp_path: Path) -> None:
    RunDirectory.begin(str(tmp_path / "ev"), job="evaluate", config={}, versions={}).release()
    with pytest.raises(StorageError, match="is running: not all is answered"):
        open_answers([str(tmp_path / "ev")], Gold())
    finished(tmp_path / "build", "build_benchmark")
    with pytest.raises(StorageError, match="is a run of build_benchmark"):
        open_answers([str(tmp_path / "build")], Gold())


def test_a_sample_is_of_questions_and_stays_the_same(tmp_path: Path) -> None:
    rows = [{"question": f"Question {n}?", "answer": "Yes.", "model": model} for n in range(9) for model in "ab"]
    census = open_answers([saved(tmp_path, "a.jsonl", rows)], Gold()).census()
    turned = open_answers([saved(tmp_path, "b.jsonl", rows[::-1])], Gold()).census()
    assert len(census.chosen(4, 0)) == 4 and census.chosen(4, 0) == turned.chosen(4, 0) != census.chosen(4, 1)
    assert census.chosen(None, 0) == census.chosen(50, 0) == census.questions
    assert census.digest != turned.digest


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_a_normal_question_is_its_own_normal(question: str) -> None:
    assert normal(normal(question)) == normal(question)
    assert normal(f"  {question.upper()}?!") == normal(question.upper())


def test_the_real_answers_have_their_gold(toy: Path) -> None:
    medlfqa = toy.parents[1] / "medlfqa"
    if not medlfqa.is_dir():
        pytest.skip(f"no real data: {medlfqa} is absent")
    gold = read_gold([str(file) for file in sorted(medlfqa.glob("*_test.jsonl"))])
    files = [str(file) for file in sorted(medlfqa.glob("*_test.*.jsonl"))]
    census = open_answers(files, gold).census()
    assert set(census.models) == {"biomistral-7b", "mistral-7b"}
    assert census.rows == census.answers + census.rejects == 334
    assert census.with_gold > 0.9 * census.answers
