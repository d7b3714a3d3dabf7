"""Answers made elsewhere, in the shapes in which people keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fdarx_core.storage import Location, StorageError, write_table
from fdarx_core.storage.predictions_file import GivenAnswer, read_predictions

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
    GivenAnswer("q1", "m", "full_label", "", ROWS[0]["answer"]),
    GivenAnswer("q2", "m", "retrieved", "bm25", "", [3, 4]),
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
        GivenAnswer("17", "some-model.v2", "given", "", "yes"),
        GivenAnswer("q9", "some-model.v2", "given", "", "no"),
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


def test_damaged_lines_are_told_of(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"qid": "q", "answer": "a"}\r\n\r\n{"qid"\r\n[]\r\n"\xff"\r\n')
    answers, rejects = read_predictions(str(path))
    assert len(answers) == 1
    assert [(one.reason, one.source) for one in rejects] == [
        ("not_json", "m.jsonl:3"),
        ("not_an_object", "m.jsonl:4"),
        ("not_json", "m.jsonl:5"),
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
        "empty.jsonl": r"holds no answer \(no row\)",
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


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.dictionaries(KEYS, ANY, max_size=6) | ANY, max_size=8))
def test_every_row_is_an_answer_or_told_of(tmp_path: Path, rows: list[Any]) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"qid": "sure", "answer": "a"}, *rows])))
    answers, rejects = read_predictions(str(path))
    assert len(answers) + len(rejects) == len(rows) + 1
    assert all(one.question_id and one.model and one.setting for one in answers)
