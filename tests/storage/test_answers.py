"""Predictions and answers to check, in the formats in which people and other jobs keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fdarx_core.records import CheckedAnswer, LabelSummary, Prediction, QuestionAnswer, RagAnswer, RagQuestion, Reject
from fdarx_core.storage import Location, RunDirectory, StorageError, write_records, write_table
from fdarx_core.storage.checked_answers import ReferenceStatements, open_answers, read_references
from fdarx_core.storage.imported_predictions import ImportedPrediction, normalized_question, read_predictions

ROWS: list[dict[str, Any]] = [
    {"qid": "q1", "answer": "40 mg\nCITED_PASSAGES: PASSAGE_0003", "model": "m", "setting": "full_label"},
    {
        "qid": "q2",
        "answer": "",
        "model": "m",
        "setting": "retrieved",
        "retriever": "bm25",
        "cited": "PASSAGE_0003, [4]",
    },
]
ANSWERS = [
    ImportedPrediction("q1", "m", "full_label", "", ROWS[0]["answer"]),
    ImportedPrediction("q2", "m", "retrieved", "bm25", "", [3, 4]),
]


def saved(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    path = folder / name
    if path.suffix == ".parquet":
        write_table(Location(path), pa.Table.from_pylist([{**dict.fromkeys(rows[1]), **row} for row in rows]))
    elif path.suffix == ".csv":
        keys = list(rows[1])
        cells = [[str(row.get(key, "")).replace('"', '""') for key in keys] for row in rows]
        text = "\r\n".join(",".join(f'"{cell}"' for cell in line) for line in [keys, *cells])
        path.write_text("\ufeff" + text, encoding="utf-8", newline="")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1))
    else:
        path.write_text("\n\n".join(map(json.dumps, rows)))
    return str(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet", "b.JSONL"])
def test_every_format_gives_the_same(tmp_path: Path, name: str) -> None:
    assert read_predictions(saved(tmp_path, name, ROWS)) == (ANSWERS, [])


def test_what_a_row_leaves_out_comes_from_the_file(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 17, "prediction": "yes"},
        {"question_id": "q9", "response": "no", "gold_answer": "no"},
    ]
    answers, rejects = read_predictions(saved(tmp_path, "some-model.v2.jsonl", rows))
    assert rejects == []
    assert answers == [
        ImportedPrediction("17", "some-model.v2", "given", "", "yes"),
        ImportedPrediction("q9", "some-model.v2", "given", "", "no"),
    ]


@pytest.mark.parametrize(
    ("cited", "expected"),
    [
        (None, None),
        ([], []),
        ("", []),
        (12, [12]),
        ([3, "PASSAGE_0012", "||PASSAGE_0004||", "[5]", 3], [3, 12, 4, 5]),
        ("[PASSAGE_0001, passage 2; PASSAGE-3]", [1, 2, 3]),
        ("PASSAGE_0003-PASSAGE_0005, 9", [3, 4, 5, 9]),
        ("[[1], [2]]", [1, 2]),
        ("7.0", [7]),
    ],
)
def test_citations(tmp_path: Path, cited: Any, expected: list[int] | None) -> None:
    answers, _ = read_predictions(saved(tmp_path, "m.jsonl", [{"qid": "q", "answer": "a", "cited": cited}]))
    assert answers[0].cited == expected


BAD: list[tuple[dict[str, Any], str]] = [
    ({"qid": "q1", "answer": "again"}, "duplicate"),
    ({"answer": "whose?"}, "missing_key"),
    ({"qid": " ", "answer": "whose?"}, "missing_key"),
    ({"qid": "q3"}, "missing_key"),
    ({"qid": "q3", "answer": None}, "missing_key"),
    ({"qid": "q3", "answer": ["a"]}, "missing_key"),
    ({"qid": "q3", "answer": "a", "cited": "drug:8.2:0"}, "unreadable_citation"),
    ({"qid": "q3", "answer": "a", "cited": {"a": 1}}, "unreadable_citation"),
    ({"qid": "q3", "answer": "a", "cited": [True]}, "unreadable_citation"),
    ({"qid": "q3", "answer": "a", "cited": "1-99999"}, "unreadable_citation"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_a_bad_row_is_told_of(tmp_path: Path, bad: dict[str, Any], reason: str) -> None:
    answers, rejects = read_predictions(saved(tmp_path, "m.json", [{"qid": "q1", "answer": "first"}, bad]))
    assert [one.text for one in answers] == ["first"]
    [told] = rejects
    assert (told.stage, told.reason, told.source) == ("intake", reason, "m.json:2")
    assert told.id == (str(bad.get("qid", "")).strip() or "m.json:2") and told.detail


def test_one_question_may_be_answered_in_several_settings(tmp_path: Path) -> None:
    base = {"qid": "q", "answer": "a"}
    rows = [base, {**base, "model": "n"}, {**base, "setting": "oracle"}, {**base, "retriever": "bm25"}]
    answers, rejects = read_predictions(saved(tmp_path, "m.jsonl", rows))
    assert (len(answers), rejects) == (4, [])


@pytest.mark.parametrize(
    ("given", "expected"),
    [("org/model 7b", "org-model-7b"), ("../../etc", "etc"), ("Modell-Ü", "Modell"), ("..", "unnamed")],
)
def test_names_of_models_can_name_folders(tmp_path: Path, given: str, expected: str) -> None:
    answers, _ = read_predictions(saved(tmp_path, "m.jsonl", [{"qid": "q", "answer": "a", "model": given}]))
    assert answers[0].model == expected


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", '{"qid": "q", "answer": "yes; no, both", "score": NaN, "nested": {"x": [-Infinity, 1]}}\n'),
        ("a.json", '[{"qid": "q", "answer": "yes; no, both", "score": Infinity}]'),
        ("a.csv", 'qid;answer\nq;"yes; no, both"\n'),
        ("a.csv", "qid;answer;note\r\nq;'yes; no, both'\r\n".replace("'", '"')),
        ("a.csv", "qid\tanswer\nq\tyes; no, both\n"),
        ("a.csv", '"qid","a;b;c","answer"\nq,x,"yes; no, both"\n'),
        ("a.csv", '\ufeffqid,answer\nq,"yes; no, both"\n'),
    ],
)
def test_files_as_other_programs_write_them(name: str, data: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(data, newline="")
    predictions, rejects = read_predictions(str(tmp_path / name))
    assert [(found.question_id, found.text) for found in predictions] == [("q", "yes; no, both")]
    assert rejects == []


def test_a_long_field_of_a_csv_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"qid,answer\nq,{'word ' * 40_000}\n")
    [prediction], _ = read_predictions(str(tmp_path / "a.csv"))
    assert len(prediction.text) > 131_072


def test_damaged_lines_are_told_of(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"qid": "q", "answer": "a"}\r\n\r\n{"qid"\r\n[]\r\n"\xff"\r\n')
    answers, rejects = read_predictions(str(path))
    assert len(answers) == 1
    assert [(one.reason, one.source) for one in rejects] == [
        ("not_json", "m.jsonl:3"),
        ("not_an_object", "m.jsonl:4"),
        ("not_utf8", "m.jsonl:5"),
    ]


def test_what_is_no_file_of_answers_is_refused(tmp_path: Path) -> None:
    contents = {
        "text.txt": b"a",
        "object.json": b"{}",
        "broken.json": b"[",
        "latin.csv": b"qid,answer\nq,\xe9",
        "broken.parquet": b"PAR1",
        "empty.jsonl": b"\n",
        "none.jsonl": b'{"qid": "q"}\n',
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.jsonl").mkdir()
    said = {
        "missing.jsonl": "is not there; --predictions takes a file: .jsonl",
        "folder.jsonl": "is a folder",
        "text.txt": "is of another kind",
        "object.json": "holds no list",
        "broken.json": "is not JSON",
        "latin.csv": "save it as UTF-8",
        "broken.parquet": "is damaged",
        "empty.jsonl": r"has no rows",
        "none.jsonl": "holds no answer .*none.jsonl:1: missing_key",
    }
    for name, pattern in said.items():
        with pytest.raises(StorageError, match=pattern):
            read_predictions(str(tmp_path / name))


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
KEYS = st.sampled_from(["qid", "id", "answer", "prediction", "model", "setting", "retriever", "cited"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.dictionaries(KEYS, ANY, max_size=6) | ANY, max_size=8))
def test_every_row_is_an_answer_or_told_of(tmp_path: Path, rows: list[Any]) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"qid": "sure", "answer": "a"}, *rows])))
    answers, rejects = read_predictions(str(path))
    assert len(answers) + len(rejects) == len(rows) + 1
    assert all(one.question_id and one.model and one.setting for one in answers)


ANSWER_ROWS: list[dict[str, Any]] = [
    {"question": "Is it safe?", "answer": "It is.", "model": "m", "drug": "Examplol", "references": "Yes."},
    {"question": "How much?", "answer": "Take 5 mg.", "model": "m", "type": "numeric", "dataset": "d"},
]
GOLD_ROWS: list[dict[str, Any]] = [
    {"Question": "is it SAFE", "Free_form_answer": "It is safe.", "Must_have": ["It is safe"], "Nice_to_have": []},
    {"Question": "Who?", "Free_form_answer": "Nobody.", "Must_have": [], "Nice_to_have": ["Nobody does"]},
]


def save_answers(folder: Path, name: str, rows: list[Any]) -> str:
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


def taken(*addresses: str, gold: ReferenceStatements | None = None) -> tuple[list[CheckedAnswer], list[Reject]]:
    rows = list(open_answers(addresses, gold or ReferenceStatements()))
    answers = [row for row in rows if isinstance(row, CheckedAnswer)]
    return answers, [row for row in rows if isinstance(row, Reject)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet"])
def test_every_format_gives_the_same_answers_to_check(tmp_path: Path, name: str) -> None:
    answers, rejects = taken(save_answers(tmp_path, name, ANSWER_ROWS))
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
        ANSWER_ROWS[0],
        "{half",
        [1],
        {"answer": "To what?"},
        {"question": " ?! ", "answer": "To what?"},
        {"question": "Why?"},
        {"question": "Why?", "answer": 5},
        {**ANSWER_ROWS[0], "answer": "It is not."},
        {**ANSWER_ROWS[0], "id": 7},
        {"question": "And?", "answer": " "},
    ]
    answers, rejects = taken(save_answers(tmp_path, "a.jsonl", rows))
    assert [one.reason for one in rejects] == [
        "not_json", "not_an_object", "no_question", "no_question", "no_answer", "no_answer", "duplicate",
    ]  # fmt: skip
    assert len(answers) + len(rejects) == len(rows)
    assert all(one.source and one.detail and one.stage == "predictions" for one in rejects)
    assert [one.outcome for one in answers] == ["answered", "answered", "failed"]


def test_several_files_and_their_models(tmp_path: Path) -> None:
    gold = read_references([save_answers(tmp_path, "kqa.jsonl", GOLD_ROWS)])
    nameless = [{key: row[key] for key in ("question", "answer")} for row in ANSWER_ROWS]
    files = [save_answers(tmp_path, name, nameless) for name in ("kqa.llama-2.7b.jsonl", "kqa2.mistral.jsonl")]
    answers, rejects = taken(*files, gold=gold)
    assert rejects == []
    assert [one.model for one in answers] == ["llama-2.7b"] * 2 + ["kqa2.mistral"] * 2
    assert [one.dataset for one in answers] == ["kqa", "kqa", "kqa", ""]
    assert len({one.question_id for one in answers}) == 2 and len({one.id for one in answers}) == 4


def test_gold_is_matched_by_the_words_of_the_question(tmp_path: Path) -> None:
    gold = read_references([save_answers(tmp_path, "g.jsonl", GOLD_ROWS)])
    answers = open_answers([save_answers(tmp_path, "a.jsonl", ANSWER_ROWS)], gold)
    first, second = answers
    assert isinstance(first, CheckedAnswer) and isinstance(second, CheckedAnswer)
    assert (first.must_have, first.references, first.dataset) == (["It is safe"], ["Yes.", "It is safe."], "g")
    assert (second.must_have, second.nice_to_have, second.dataset) == ([], [], "d")
    summary = answers.summary()
    assert (summary.rows, summary.answers, summary.with_statements, summary.statements) == (2, 2, 1, 1)


def test_gold_rows_that_are_none(tmp_path: Path) -> None:
    rows: list[Any] = [
        *GOLD_ROWS,
        {**GOLD_ROWS[0], "Must_have": ["Else"]},
        {"Question": "What?"},
        {"Must_have": ["x"]},
        "[]",
    ]
    gold = read_references([save_answers(tmp_path, "g.jsonl", rows)])
    assert [one.reason for one in gold.rejects] == ["duplicate", "no_statements", "no_question", "not_an_object"]
    assert len(gold.rows) + len(gold.rejects) == len(rows)
    assert gold.rows["is it safe"][2] == ["It is safe"], "the first of two rows stands"


def test_errors_name_the_file_and_what_a_row_needs(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no/such\.jsonl is not there; --predictions"):
        open_answers(["no/such.jsonl"], ReferenceStatements())
    with pytest.raises(StorageError, match=r"no/such\.jsonl is not there; --references"):
        read_references(["no/such.jsonl"])
    bad = save_answers(tmp_path, "a.jsonl", [{"question": "Why?"}])
    with pytest.raises(ValueError, match=r"a\.jsonl holds no answer \(the first row: a\.jsonl:1: no_answer"):
        open_answers([bad], ReferenceStatements()).summary()
    with pytest.raises(ValueError, match=r"a\.jsonl holds no reference .*no_statements"):
        read_references([bad])


def finished(folder: Path, job: str) -> RunDirectory:
    run = RunDirectory.begin(str(folder), job=job, config={}, versions={})
    run.finish({"benchmark": {"name": "rx"}})
    return run


def test_a_run_of_evaluate(tmp_path: Path) -> None:
    run = finished(tmp_path / "ev", "evaluate")
    asked = [QuestionAnswer("q1", "factual", "factual", "", "", "s1", "Examplol", "How much?", "5 mg")]
    write_records(run.part("questions", 0), asked, QuestionAnswer)
    write_records(run.part("subjects", 0), [LabelSummary("s1", "Examplol", True, 1, 9, "0UNII")], LabelSummary)
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
        ("factual", "s1", "Examplol", "0UNII", "rx")
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
    with pytest.raises(StorageError, match="is running, with answers missing"):
        open_answers([str(tmp_path / "ev")], ReferenceStatements())
    finished(tmp_path / "build", "build_benchmark")
    with pytest.raises(StorageError, match="is a run of build_benchmark"):
        open_answers([str(tmp_path / "build")], ReferenceStatements())


def test_a_sample_is_of_questions_and_stays_the_same(tmp_path: Path) -> None:
    rows = [{"question": f"Question {n}?", "answer": "Yes.", "model": model} for n in range(9) for model in "ab"]
    summary = open_answers([save_answers(tmp_path, "a.jsonl", rows)], ReferenceStatements()).summary()
    turned = open_answers([save_answers(tmp_path, "b.jsonl", rows[::-1])], ReferenceStatements()).summary()
    assert len(summary.chosen(4, 0)) == 4 and summary.chosen(4, 0) == turned.chosen(4, 0) != summary.chosen(4, 1)
    assert summary.chosen(None, 0) == summary.chosen(50, 0) == summary.questions
    assert summary.digest != turned.digest


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_a_normal_question_is_its_own_normal(question: str) -> None:
    assert normalized_question(normalized_question(question)) == normalized_question(question)
    assert normalized_question(f"  {question.upper()}?!") == normalized_question(question.upper())


def test_the_real_answers_have_their_gold(toy: Path) -> None:
    medlfqa = toy.parents[1] / "medlfqa"
    if not medlfqa.is_dir():
        pytest.skip(f"no real data: {medlfqa} is absent")
    gold = read_references([str(file) for file in sorted(medlfqa.glob("*_test.jsonl"))])
    files = [str(file) for file in sorted(medlfqa.glob("*_test.*.jsonl"))]
    summary = open_answers(files, gold).summary()
    assert set(summary.models) == {"biomistral-7b", "mistral-7b"}
    assert summary.rows == summary.answers + summary.rejects == 334
    assert summary.with_statements > 0.9 * summary.answers
