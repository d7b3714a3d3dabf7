"""`fdarx compare` on runs whose questions differ."""

from __future__ import annotations

from pathlib import Path

from tests.jobs.in_process import run_job

TEXTS = {number: f"What is the dose of drug {number}?,{number} mg,{number} mg\n" for number in range(6)}


def graded(out: Path, *numbers: int) -> Path:
    file = out.with_suffix(".csv")
    file.write_text("question,answer,reference\n" + "".join(map(TEXTS.__getitem__, numbers)))
    done = run_job("grade", file, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def test_runs_of_other_questions_are_refused_and_common_questions_are_counted(tmp_path: Path) -> None:
    first, second, other = (
        graded(tmp_path / "a", 0, 1, 2),
        graded(tmp_path / "b", 1, 2, 3),
        graded(tmp_path / "c", 4, 5),
    )
    refused = run_job("compare", first, other, "--out", tmp_path / "page.html")
    assert (refused.returncode, refused.stdout) == (2, "") and not (tmp_path / "page.html").exists()
    assert refused.stderr == "error: a and c have no question in common; give runs on the same questions\n"
    compared = run_job("compare", first, second, other)
    assert compared.returncode == 0
    for pair in ("a and b share 2", "a and c share 0", "b and c share 0"):
        assert f"{pair} questions\n" in compared.stdout
    assert " share " not in run_job("compare", first, first).stdout
