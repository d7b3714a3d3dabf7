"""Files of a user that are not as they should be: each is refused, or reported, in one line that names the place."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import REPOSITORY
from tests.jobs.in_process import run_job

LABELS = REPOSITORY / "fdarx_core/examples/labels"
HEADER = "question,answer,reference\n"


def refusal(file: Path, *command: object) -> str:
    """Run a job that refuses the file; return its error, which is the only line."""
    refused = run_job(*command, "--out", file.parent / "run")
    assert refused.returncode == 2, refused.stderr
    [line] = refused.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f'{HEADER}q1,"5 mg,5 mg\nq2,a2,r2\nq3,a3,r3\n', 2),
        (f'{HEADER}q1,a1,r1\nq2,"5 mg,5 mg\nq3,"a3, too","r3"\n', 3),
        (f'{HEADER}q1,a1,r1\nq2,a2,"r2', 3),
        (f'{HEADER}q1,"5 mg" daily",r1\n', 2),
        (f'"{HEADER}q1,a1,r1\n', 1),
        (f'{HEADER}\n"q\n1",a1,r1\n"q2,a2,r2\n', 5),
    ],
)
def test_a_quote_that_is_not_closed_is_named_with_its_line(text: str, line: int, tmp_path: Path) -> None:
    file = tmp_path / "quote.csv"
    file.write_text(text)
    fault = f"{file}:{line} has a quote that is not closed"
    assert fault in refusal(file, "grade", file)
    assert fault in refusal(file, "factuality", "--predictions", file, "--evidence", "pubmed")
    assert fault in refusal(file, "factuality", "--predictions", file, "--evidence", f"file:{file}")


def test_lines_with_more_cells_than_the_header_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "commas.csv"
    file.write_text(f"{HEADER}What, please?,5 mg,5 mg\nq2,5 mg,5 mg,\n'5 mg\" tablets',a,r\n")
    done = run_job("grade", file, "--out", tmp_path / "run")
    assert done.returncode == 0
    assert "1 row cannot be used, first commas.csv:2: too_many_cells, it has 4 cells, the header 3; " in done.stderr


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("none.csv", b"", "is empty; "),
        ("none.jsonl", b"", "is empty; "),
        ("none.parquet", b"", "is empty; "),
        ("header.csv", HEADER.encode(), "has no rows; a row needs"),
        ("mark.csv", b"\xef\xbb\xbf", "has no rows; a row needs"),
        ("blank.jsonl", b"\n \n", "has no rows; a row needs"),
        ("list.json", b"[]", "has no rows; a row needs"),
        ("wrong.jsonl", b"[\n{},\n{}]\n", "(the first row: wrong.jsonl:1: not_json, "),
    ],
)
def test_a_file_without_rows_is_said_to_have_none(name: str, content: bytes, fault: str, tmp_path: Path) -> None:
    file, answers = tmp_path / name, tmp_path / "answers.jsonl"
    file.write_bytes(content)
    answers.write_text('{"question": "What is the dose?", "answer": "The dose is 5 mg."}\n')
    for command in (
        ("grade", file),
        ("factuality", "--predictions", file, "--evidence", "pubmed"),
        ("factuality", "--predictions", answers, "--evidence", f"file:{file}"),
        ("factuality", "--predictions", answers, "--evidence", "pubmed", "--references", file),
    ):
        line = refusal(file, *command)
        assert line.startswith(f"error: {file} ") and fault in line


def test_labels_that_are_cut_off_are_named_with_what_to_do(tmp_path: Path) -> None:
    whole = (LABELS / "benthiazolone-tablets.xml").read_bytes()
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("one.xml", whole)
        archive.writestr("two.xml", whole)
    data, cut = packed.getvalue(), "seems cut off"
    files = {
        "half.xml": (whole[:20_000], cut),
        "unclosed.xml": (whole.replace(b"</paragraph>", b"", 1), "correct it there, or download the file again"),
        "half.zip": (data[: len(data) // 2], cut),
        "end.zip": (data[len(data) // 4 :], cut),
        "hole.zip": (b"PK" + bytes(len(data) // 4) + data[len(data) // 4 + 2 :], cut),
    }
    for name, (content, remedy) in files.items():
        (tmp_path / name).write_bytes(content)
        refused = run_job("build", "--labels", tmp_path / name, "--out", tmp_path / f"{name}.run")
        assert refused.returncode in (0, 2) and str(tmp_path / name) in refused.stderr and remedy in refused.stderr
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels/good.xml").write_bytes(whole)
    (tmp_path / "labels/half.xml").write_bytes(whole[:20_000])
    done = run_job("build", "--labels", tmp_path / "labels", "--out", tmp_path / "run")
    assert done.returncode == 0
    assert f"1 document cannot be used, first {tmp_path / 'labels/half.xml'}: " in done.stderr


def test_the_first_row_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    row = '{"question": "What is the dose?", "answer": "The dose is 5 mg.", "reference": "5 mg", "id": "%d"}\n'
    file.write_text(row % 1 + row % 2 + "{broken\n" + row % 3)
    first = r"bad\.jsonl:3: not_json, unexpected character[^()]*; see /.*parquet\n"
    graded = run_job("grade", file, "--out", tmp_path / "grade")
    assert re.search(f"^1 row cannot be used, first {first}", graded.stderr)
    checked = run_job("factuality", "--predictions", file, "--evidence", f"file:{file}", "--out", tmp_path / "f")
    assert re.search(f"^2 rows cannot be used, first {first}", checked.stderr)


def test_rows_that_repeat_a_question_are_told_of(tmp_path: Path) -> None:
    file = tmp_path / "twice.csv"
    file.write_text(HEADER + "What is the dose?,5 mg,5 mg\n" * 3 + "What is the unit?,mg,mg\n")
    done = run_job("grade", file, "--out", tmp_path / "run")
    [line] = [line for line in done.stderr.splitlines() if "repeat" in line]
    assert line == "rows that repeat a question of the same model: 2, graded as repeats; remove copies"
    file.write_text(HEADER + "What is the dose?,5 mg,5 mg\n")
    assert "repeat" not in run_job("grade", file, "--out", tmp_path / "other").stderr
