"""Files of questions with reference answers, as people keep them, and their lead-ins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.rag.metrics import same_title
from fdarx_core.rag.questions import read_questions, without_lead_ins
from fdarx_core.storage import StorageError

TITLE = "Cleaning of Filling Lines, Tanks, and Hoses Guidance for Industry"


def written(folder: Path, *rows: Any, name: str = "questions.jsonl") -> str:
    file = folder / name
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    file.write_text("\n".join(lines), "utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("row", "references"),
    [
        ({"ground_truths": ["Yes.", " ", "It is."]}, ["Yes.", "It is."]),
        ({"ground_truths": [], "answer": "Yes."}, ["Yes."]),
        ({"reference": " Yes. "}, ["Yes."]),
        ({"ground_truth": "Yes."}, ["Yes."]),
        ({"references": ["Yes."]}, ["Yes."]),
    ],
)
def test_references_under_any_of_their_names(row: dict[str, Any], references: list[str], tmp_path: Path) -> None:
    [question], rejects = read_questions(written(tmp_path, {"question": "Is it?", **row}))
    assert question.references == references and rejects == []


def test_questions_of_one_title_are_a_cluster(tmp_path: Path) -> None:
    rows = [
        {"question": "Is it?", "answer": "Yes.", "title": "Guide A"},
        {"question": "Is it not?", "answer": "No.", "title": "Guide A"},
        {"question": "Is it?", "answer": "Yes.", "id": 7},
        {"question": "Is it?", "answer": "Yes."},
    ]
    questions, rejects = read_questions(written(tmp_path, *rows))
    assert rejects == []
    assert [one.cluster for one in questions] == ["Guide A", "Guide A", "7", questions[3].id]
    assert len({one.id for one in questions}) == 4 and questions[2].id == "7"
    assert questions == read_questions(written(tmp_path, *rows))[0]


def test_csv_and_json_are_read_alike(tmp_path: Path) -> None:
    row = {"question": "Is it?", "answer": "Yes,\nit is.", "title": ""}
    (tmp_path / "q.csv").write_text('question,answer,title\nIs it?,"Yes,\nit is.",\n', "utf-8")
    [one], _ = read_questions(str(tmp_path / "q.csv"))
    assert [one] == read_questions(written(tmp_path, [row], name="q.json"))[0]


def test_bad_rows_are_rejected_with_their_place(tmp_path: Path) -> None:
    place = written(
        tmp_path,
        {"question": "Is it?", "answer": "Yes."},
        "{",
        "[1]",
        {"question": " ", "answer": "Yes."},
        {"question": ["Is it?"], "answer": "Yes."},
        {"question": "Why?", "answer": ""},
        {"question": "Why?", "answer": 5},
        {"question": "Is it?", "reference": "No."},
        {"question": "Is it so?", "answer": "Yes.", "title": 3},
    )
    questions, rejects = read_questions(place)
    assert len(questions) == 2
    assert [(one.source, one.reason) for one in rejects] == [
        ("questions.jsonl:2", "not_json"), ("questions.jsonl:3", "not_an_object"),
        ("questions.jsonl:4", "no_question"), ("questions.jsonl:5", "no_question"),
        ("questions.jsonl:6", "no_reference"), ("questions.jsonl:7", "no_reference"),
        ("questions.jsonl:8", "duplicate"),
    ]  # fmt: skip
    assert all(one.stage == "questions" and one.detail for one in rejects)


def test_a_file_without_a_usable_row_says_what_is_wrong_with_the_first(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"questions.jsonl:1: no_reference.*a row needs question"):
        read_questions(written(tmp_path, {"question": "Is it?"}))
    with pytest.raises(StorageError, match=r"questions.jsonl is empty"):
        read_questions(written(tmp_path))


@pytest.mark.parametrize("name", ["", "absent.jsonl", "questions.txt"])
def test_what_is_no_file_of_rows(name: str, tmp_path: Path) -> None:
    written(tmp_path, "text", name="questions.txt")
    with pytest.raises(StorageError, match="--questions takes a file"):
        read_questions(str(tmp_path / name))


def test_lead_ins_go_and_questions_stay() -> None:
    asked = [
        f"According to the {TITLE}, How often is a tank cleaned?",
        f"Guideline title: {TITLE}  Who cleans the hoses?",
        f"In light of the details from {TITLE} , who signs, and when, for a line?",
        "As stated in Stability of Batches , How many batches are tested?",
        "According to whom, if anyone, is the line clean?",
        "How many batches, lots, or units are tested?",
    ]
    assert without_lead_ins(asked) == [
        "How often is a tank cleaned?", "Who cleans the hoses?", "Who signs, and when, for a line?",
        "How many batches are tested?", *asked[4:],
    ]  # fmt: skip


@given(st.lists(st.text(max_size=80), max_size=6))
def test_nothing_is_lost_but_a_beginning(texts: list[str]) -> None:
    for before, after in zip(texts, without_lead_ins(texts), strict=True):
        assert before.casefold().endswith(after.casefold()[1:]) and bool(after) == bool(before)


def test_stripping_is_an_option(tmp_path: Path) -> None:
    rows = [{"question": f"As stated in {TITLE} , {asked}", "answer": "Yes."} for asked in ("Is it clean?", "Who?")]
    place = written(tmp_path, *rows)
    plain, stripped = read_questions(place)[0], read_questions(place, strip_title=True)[0]
    assert [one.question for one in plain] == [row["question"] for row in rows]
    assert stripped[0].question == "Is it clean?"
    assert [one.id for one in stripped] == [one.id for one in plain]


def test_real_questions(guidelines: Path) -> None:
    faq, rejects = read_questions(str(guidelines / "faq.jsonl"), strip_title=True)
    assert len(faq) == 926 and [one.reason for one in rejects] == ["no_reference", "duplicate"]
    whole = {one.id: one.question for one in read_questions(str(guidelines / "faq.jsonl"))[0]}
    assert sum(one.question != whole[one.id] for one in faq) == 916
    assert not any(same_title(one.title, one.question) for one in faq)
    tested, rejects = read_questions(str(guidelines / "questions.jsonl"))
    assert len(tested) == 41 and rejects == [] and len({one.cluster for one in tested}) == 41
