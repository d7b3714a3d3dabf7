"""Rows cut into parts, and which parts are still to be made; without Ray."""

from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.rag_steps import QuestionState, write_states
from fdarx_core.records import RagAnswer, RagQuestion, RagScore, Reject
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records


def begun(folder: object) -> RunDirectory:
    return RunDirectory.begin(str(folder), job="evaluate_rag", config={}, versions={})


def answered(id: str, reason: str = "") -> QuestionState:
    """Return a question with one answer."""
    row = RagAnswer(id, "question", "none", "m", reason=reason)
    return QuestionState(RagQuestion(id, "?", []), [(row, RagScore(id, id, "question", "none", "m"))])


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 5))
def test_each_row_is_in_one_part_or_among_the_rejects(kept: list[bool], size: int) -> None:
    rows = [
        RagQuestion(str(n), f"{n}?", []) if one else Reject(str(n), "questions", "none") for n, one in enumerate(kept)
    ]
    with TemporaryDirectory() as folder:
        files = PartFiles(begun(folder), "0")
        numbers = files.write_parts("questions", iter(rows), RagQuestion, size)
        parts = [files.read("questions", number, RagQuestion) for number in numbers]
        rejects = files.read("rejects", 0, Reject)
    assert [row for part in parts for row in part] + rejects == sorted(rows, key=lambda row: isinstance(row, Reject))
    assert all(len(part) == size for part in parts[:-1]) and all(0 < len(part) <= size for part in parts[-1:])


def test_what_is_not_whole_or_was_understood_otherwise_is_made_again(tmp_path: Path) -> None:
    files = PartFiles(begun(tmp_path / "run"), "0")
    numbers = files.write_parts("questions", [RagQuestion(str(n), f"{n}?", []) for n in range(20)], RagQuestion, 8)
    write_states(files, 0, [])
    write_states(files, 2, [answered("0", reason="transient_server_error")])
    files.mark_complete("contraindications", 1)
    assert (files.complete_parts("", numbers), files.complete_parts("contraindications", numbers)) == ({0}, {1})
    assert PartFiles(files.run, "1").complete_parts("", numbers) == set()
    assert pickle.loads(pickle.dumps(files)) == files


def test_all_rows_are_those_of_the_parts_that_are_there(tmp_path: Path) -> None:
    files = PartFiles(begun(tmp_path / "run"), "0")
    answers = [answered(str(n)) for n in range(2)]
    for number, answer in zip((3, 1), answers, strict=True):
        write_states(files, number, [answer])
    assert [row.question_id for row in files.read_all("answers", range(4), RagAnswer)] == ["1", "0"]
    assert list(read_records(files.run.part("answers", 3), RagAnswer)) == [answers[0].answers[0][0]]


def assert_in_order(files: PartFiles) -> None:
    """The rows of each part come in the order of the numbers, however many files are read at a time."""
    for number in range(7):
        files.write(
            "questions", number, [RagQuestion(f"{number}-{one}", "?", []) for one in range(number)], RagQuestion
        )
    numbers = [5, 0, 6, 2, 1, 4, 3]
    found = list(files.read_each("questions", numbers, RagQuestion))
    assert [[row.id for row in rows] for rows in found] == [[f"{n}-{one}" for one in range(n)] for n in numbers]
    damaged = files.run.part("questions", 4)
    damaged.write_bytes(b"PAR1 and no more")
    with pytest.raises(StorageError, match=r"part-000004\.parquet is damaged"):
        list(files.read_each("questions", numbers, RagQuestion))


def test_parts_are_read_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fdarx_core.pipeline.part_files._FILES_AT_ONCE", 3)
    assert_in_order(PartFiles(begun(tmp_path / "run"), "0"))


@pytest.mark.s3
def test_parts_on_s3_are_read_some_at_a_time(bucket: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fdarx_core.pipeline.part_files._FILES_AT_ONCE", 3)
    assert_in_order(PartFiles(begun(bucket / "run"), "0"))
