"""`fdarx example` writes what a new user tries the other jobs on."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import EXAMPLES
from tests.jobs.in_process import run_job


def test_writes_all_examples_and_replaces_what_was_changed(tmp_path: Path) -> None:
    labels = tmp_path / "examples" / "labels"
    for _ in range(2):
        done = run_job("example", "--out", tmp_path / "examples")
        assert done.returncode == 0 and f"fdarx build --labels {labels}" in done.stdout, done.stderr
        assert {file.name: file.read_bytes() for file in labels.iterdir()} == {
            file.name: file.read_bytes() for file in EXAMPLES.iterdir()
        }
        (labels / "telvanto-tablets.xml").write_text("changed")
    assert (tmp_path / "examples" / "questions.jsonl").exists() and (tmp_path / "examples" / "README.md").exists()
    assert len(list((tmp_path / "examples" / "guidelines").iterdir())) == 3
