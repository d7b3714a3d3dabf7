"""`fdarx finetune retriever` on a tiny encoder: it finds more passages, is searched with, and a killed run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fdarx_core as fdarx
from fdarx_core.rag.index import Index
from fdarx_core.records import Passage, RetrievalScore
from fdarx_core.storage import Location, RunDirectory, read_records
from fdarx_core.tuning.evaluation import BASE, TUNED
from fdarx_core.tuning.trainer import STATE, LossPoint
from jobs import cli
from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.evaluating import rows_of
from tests.jobs.in_process import run_job
from tests.retrieval import tiny_models

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

pytestmark = [pytest.mark.models, pytest.mark.timeout(600)]

SMALL = (
    "--batch 8 --length 64 --epochs 4 --evaluate-every 4 --patience 40 --rate 0.003 --resamples 100 --seed 1 --quiet"
)


@pytest.fixture(scope="module")
def options(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    texts = [one.text for one in rows_of(example_build, "passages", Passage)]
    model = tiny_models.encoder(texts, tmp_path_factory.mktemp("encoder"))
    return ["--labels", str(example_build), "--model", model, *SMALL.split()]


@pytest.fixture(scope="module")
def whole(options: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert cli.main(["finetune", "retriever", *options, "--out", str(out)]) == 0
    return out


def curve_of(out: Path) -> list[LossPoint]:
    return list(read_records(Location(str(out / "curve.parquet")), LossPoint))


def test_it_learns_and_is_scored_on_drugs_that_were_kept_back(
    whole: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    info, curve = RunDirectory.open(str(whole)).info(), curve_of(whole)
    assert info["status"] == "complete" and info["steps"] == len(curve)
    assert curve[-1].loss < curve[0].loss
    assert info["validation_loss"] == min(one.validation_loss for one in curve if one.validation_loss is not None)
    scores = rows_of(whole, "scores", RetrievalScore)
    asked = {name: {one.question_id for one in scores if one.retriever == name} for name in (BASE, TUNED)}
    assert asked[BASE] == asked[TUNED] and len(asked[BASE]) == info["questions"]["test"] > 0
    assert cli.main(["finetune", "retriever", *options, "--out", str(whole)]) == 0
    told = capsys.readouterr()
    assert "complete already" in told.err
    assert "recall@5" in told.out and f"encoder  {whole / 'model'}" in told.out
    pairs = zip(options[:-1:2], options[1::2], strict=True)
    given = {name.removeprefix("--").replace("-", "_"): value for name, value in pairs}
    assert fdarx.finetune_retriever(**given, out=whole).info() == info


def test_an_index_is_made_and_searched_with_it(whole: Path, tmp_path: Path) -> None:
    made = ("--cosine-model", whole / "model", "--out", tmp_path / "index", "--executor", "local")
    done = run_job("index", "--documents", min(EXAMPLES.glob("*.xml")), *made)
    assert done.returncode == 0, done.stderr
    index = Index.open(tmp_path / "index", cosine_model=str(whole / "model"))
    assert "cosine" in index.reader.retrievers
    assert index.search("How is it stored?", 3, retriever="cosine")


@pytest.mark.nightly  # test_finetune_job kills a training that writes the same checkpoints
def test_a_killed_run_goes_on_to_the_same_curve(options: list[str], whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    line = [sys.executable, "-m", "jobs.finetune", "retriever", *options, "--out", str(out)]
    process = subprocess.Popen(line, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, start_new_session=True)
    end = time.monotonic() + 240
    while not list(out.glob(f"checkpoints/checkpoint-*/{STATE}")):
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (out / "model").exists()
    assert cli.main(["finetune", "retriever", *options, "--out", str(out)]) == 0
    curve, expected = curve_of(out), curve_of(whole)
    assert [one.step for one in curve] == [one.step for one in expected]
    assert [one.loss for one in curve] == pytest.approx([one.loss for one in expected], abs=1e-3)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--labels", "runs/none", "--out", "s3://bucket/x"], "local disk"),
        (
            ["--labels", "runs/none", "--out", "runs/x", "--model", "nowhere"],
            "--model: nowhere is not a model directory",
        ),
        (["--labels", "runs/none", "--out", "runs/x", "--batch", "1"], "--batch"),
    ],
)
def test_wrong_arguments_are_told(more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["finetune", "retriever", *more])
    assert stopped.value.code == 2 and message in capsys.readouterr().err
