"""Mistakes of a new user on the command line: one line says what is wrong, where, and what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import fdarx_core as fdarx
from fdarx_core.evaluation.thresholds import read_bounds
from fdarx_core.retrieval.models import ModelMissing
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


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--fail-under", "accuracy=nan", "accuracy lies between 0 and 1; write 80 % as 0.8"),
        ("--fail-over", "oracle/accuracy=inf", "accuracy lies between 0 and 1; write 80 % as 0.8"),
        ("--fail-under", "accuracy=2", "accuracy lies between 0 and 1; write 80 % as 0.8"),
        ("--fail-under", "ndcg_10=-0.1", "ndcg_10 lies between 0 and 1; write 80 % as 0.8"),
        ("--fail-over", "cost_per_question=inf", "cost_per_question needs a finite number"),
        ("--fail-under", "accuracy=80%", "write METRIC=NUMBER, such as accuracy=0.8 for 80 %"),
        ("--fail-over", "accuracy", "write METRIC=NUMBER, such as accuracy=0.8 for 80 %"),
        ("--fail-over", "acuracy", "write METRIC=NUMBER, such as accuracy=0.8 for 80 %"),
    ],
)
def test_a_threshold_that_no_value_can_meet(tmp_path: Path, option: str, value: str, says: str) -> None:
    told = refused("evaluate", "--benchmark", "absent", "--out", tmp_path / "run", option, value)
    assert told == f"error: {option} {value}: {says}\n" and not (tmp_path / "run").exists()


def test_a_threshold_that_is_no_share_may_exceed_one() -> None:
    assert read_bounds(["latency_s=30", "cost_per_question=2", "accuracy=1"], [], "x")["latency_s"] == 30
    with pytest.raises(ValueError, match=r"--fail-over acuracy=1: there is no metric acuracy .* did you mean accuracy"):
        read_bounds(["acuracy=1"], [], "--fail-over")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    file = tmp_path / "models.yaml"
    file.write_text("- {name: judge, model: j, base_url: 'http://127.0.0.1:1/v1'}\n")
    return file


def test_the_misspelt_name_of_an_engine(tmp_path: Path, models: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"question": "How much?", "answer": "Take 5 mg."}\n')
    words = ("factuality", "--predictions", tmp_path / "answers.jsonl", "--evidence", "pubmed", "--out", tmp_path / "f")
    told = refused(*words, "--models", models, "--entailment", "juge")
    assert told == "error: --entailment juge: there is no such engine; did you mean judge? (or one of exact, judge)\n"
    told = refused(*words, "--models", models, "--entailment", "exact", "--compare-entailment", "jugde")
    assert told.startswith("error: --compare-entailment jugde: there is no such engine; did you mean judge?")
    for name in ("exakt", "atuo", "genral"):
        with pytest.raises(ModelMissing, match=r"there is no such engine; did you mean (exact|auto|general)"):
            fdarx.verify([("Take 5 mg.", "Take 5 mg.")], engine=name)


def test_a_name_in_place_of_a_models_file(tmp_path: Path) -> None:
    says = "not a file; give files that list models, and names by"
    told = refused("evaluate", "--benchmark", "absent", "--models", "alpha", "--out", tmp_path / "run")
    assert told == f"error: --models alpha: {says} --only\n"
    told = refused("grade", "absent.csv", "--models", tmp_path, "--out", tmp_path / "run")
    assert told == f"error: --models {tmp_path}: {says} --judge\n"
