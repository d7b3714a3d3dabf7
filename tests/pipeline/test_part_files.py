"""Rows cut into parts, and which parts are still to be made; without Ray."""

from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.rag_steps import QuestionState, write_states
from fdarx_core.records import RagAnswer, RagQuestion, RagScore, Reject
from fdarx_core.storage import RunDirectory, read_records


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
        numbers = files.cut("questions", iter(rows), RagQuestion, size)
        parts = [files.read("questions", number, RagQuestion) for number in numbers]
        rejects = files.read("rejects", 0, Reject)
    assert [row for part in parts for row in part] + rejects == sorted(rows, key=lambda row: isinstance(row, Reject))
    assert all(len(part) == size for part in parts[:-1]) and all(0 < len(part) <= size for part in parts[-1:])


def test_what_is_not_whole_or_was_understood_otherwise_is_made_again(tmp_path: Path) -> None:
    files = PartFiles(begun(tmp_path / "run"), "0")
    numbers = files.cut("questions", [RagQuestion(str(n), f"{n}?", []) for n in range(20)], RagQuestion, 8)
    write_states(files, 0, [])
    write_states(files, 2, [answered("0", reason="transient_server_error")])
    files.mark("contraindications", 1)
    assert (files.marked("", numbers), files.marked("contraindications", numbers)) == ({0}, {1})
    assert PartFiles(files.run, "1").marked("", numbers) == set()
    assert pickle.loads(pickle.dumps(files)) == files


def test_all_rows_are_those_of_the_parts_that_are_there(tmp_path: Path) -> None:
    files = PartFiles(begun(tmp_path / "run"), "0")
    answers = [answered(str(n)) for n in range(2)]
    for number, answer in zip((3, 1), answers, strict=True):
        write_states(files, number, [answer])
    assert [row.question_id for row in files.read_all("answers", range(4), RagAnswer)] == ["1", "0"]
    assert list(read_records(files.run.part("answers", 3), RagAnswer)) == [answers[0].answers[0][0]]
