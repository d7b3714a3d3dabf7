"""Mistakes of a new user on the command line: one line says what is wrong, where, and what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import fdarx_core as fdarx
from fdarx_core.storage import RunConflict
from tests.conftest import EXAMPLES
from tests.jobs.in_process import run_job

LABEL = EXAMPLES / "telvanto-tablets.xml"


def refused(*words: object) -> str:
    """The one line of a command that stops before any work."""
    done = run_job(*words)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


def test_an_index_is_written_into_no_other_work(example_build: Path, tmp_path: Path) -> None:
    run, notes, index = tmp_path / "run", tmp_path / "notes", tmp_path / "index"
    shutil.copytree(example_build, run)
    notes.mkdir()
    (notes / "notes.txt").write_text("mine")
    for folder, says in (
        (run, f"{run} holds a run of the job build_benchmark, not index; choose another --out"),
        (notes, f"{notes} holds files that the job index did not write; choose another --out or empty it"),
    ):
        before = files(folder)
        words = ("index", "--documents", LABEL, "--words-only", "--out", folder)
        assert refused(*words) == refused(*words, "--rebuild") == f"error: {says}\n"
        with pytest.raises(RunConflict, match="choose another --out"):
            fdarx.index(LABEL, folder, words_only=True)
        assert files(folder) == before
    assert not run_job("index", "--documents", LABEL, "--words-only", "--out", index).returncode
    (index / "index.json").unlink()  # as if the first build had been interrupted
    for _ in range(2):
        done = run_job("index", "--documents", LABEL, "--words-only", "--out", index)
        assert not done.returncode, done.stderr
