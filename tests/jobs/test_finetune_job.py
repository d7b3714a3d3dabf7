"""`fdarx finetune` on a tiny model: the loss falls, a killed run goes on, two workers do as one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fdarx_core.records import Reject
from fdarx_core.storage import RunDirectory, read_records
from fdarx_core.tuning.curve import LossPoint
from fdarx_core.tuning.measures import BASE, TUNED, ExamAnswer, TuningFigure
from fdarx_core.tuning.model import ADAPTER_FILES
from fdarx_core.tuning.pairs import Pair
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import rows_of
from tests.tuning.made_pairs import chat_model, pairs_file

pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("rapidfuzz")

pytestmark = [pytest.mark.models, pytest.mark.timeout(600)]

SMALL = (
    "--length",
    "1024",
    "--batch",
    "2",
    "--rate",
    "0.01",
    "--epochs",
    "2",
    "--max-tokens",
    "8",
    "--seed",
    "2",
    "--resamples",
    "200",
)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("tuning")
    questions = pairs_file(folder / "pairs.jsonl")
    model = chat_model(folder / "chat", [questions])
    return ["--questions", str(questions), "--model", model, *SMALL]


def command(out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "jobs.finetune_answerer", "--out", str(out), "--cpus", "2", *options]


def tune(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(out, *options), cwd=REPOSITORY, capture_output=True, text=True, timeout=300)


def curve_of(out: Path) -> list[LossPoint]:
    return list(read_records(RunDirectory.open(str(out)).file("curve.parquet"), LossPoint))


@pytest.fixture(scope="module")
def whole(options: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    done = tune(out, *options)
    assert done.returncode == 0, done.stderr
    assert "adapter  " in done.stdout
    return out


def test_the_loss_falls_and_all_is_told(whole: Path) -> None:
    run = RunDirectory.open(str(whole))
    info, curve = run.info(), curve_of(whole)
    assert info["status"] == "complete"
    assert info["steps"] == info["steps_planned"] == len(curve) > 10
    assert curve[-1].loss < curve[0].loss - 0.1
    looks = [one.validation_loss for one in curve if one.validation_loss is not None]
    assert info["validation_loss"] == min(looks) < looks[0]
    pairs = rows_of(whole, "pairs", Pair)
    assert sum(info["pairs"].values()) == len(pairs) == 96 - len(rows_of(whole, "rejects", Reject))
    assert all((whole / "adapter" / name).stat().st_size for name in ADAPTER_FILES)
    page = (whole / "report.html").read_text()
    assert "Loss by step" in page and "http" not in page.split("<main")[1].split("<script")[0]


def test_both_models_are_examined_on_the_test_part_alone(whole: Path) -> None:
    rows = rows_of(whole, "answers", ExamAnswer)
    kept = {one.id for one in rows_of(whole, "pairs", Pair) if one.part == "test"}
    assert {one.id for one in rows if one.model == BASE} == {one.id for one in rows if one.model == TUNED} == kept
    found = {
        one.measure: one for one in read_records(RunDirectory.open(str(whole)).file("figures.parquet"), TuningFigure)
    }
    assert found["loss"].tuned < found["loss"].base
    assert found["loss"].pairs == len(kept)


def test_a_finished_run_does_nothing_more(whole: Path, options: list[str]) -> None:
    again = tune(whole, *options)
    assert again.returncode == 0
    assert "complete already" in again.stderr


def test_a_killed_run_ends_as_if_it_had_not_been(whole: Path, options: list[str], tmp_path: Path) -> None:
    out = tmp_path / "killed"
    process = subprocess.Popen(
        command(out, *options), cwd=REPOSITORY, stderr=subprocess.DEVNULL, start_new_session=True
    )
    end = time.monotonic() + 240
    while not list((out / "checkpoints").glob("step-*.pt")) and time.monotonic() < end:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert RunDirectory.open(str(out)).info()["status"] == "running"
    assert not (out / "curve.parquet").exists()
    resumed = tune(out, *options)
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming" in resumed.stderr
    told = RunDirectory.open(str(out)).info()
    assert told["steps"] == RunDirectory.open(str(whole)).info()["steps"]
    assert losses(out) == pytest.approx(losses(whole), rel=1e-3)


def losses(out: Path) -> list[float]:
    curve = curve_of(out)
    assert [one.step for one in curve] == list(range(1, len(curve) + 1))
    return [one.loss for one in curve] + [one.validation_loss for one in curve if one.validation_loss is not None]


def test_two_workers_do_as_one_does(whole: Path, options: list[str], tmp_path: Path) -> None:
    out = tmp_path / "two"
    done = tune(out, *options, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert losses(out) == pytest.approx(losses(whole), rel=1e-2)


def test_a_model_without_config_stops_the_job_at_once(options: list[str], tmp_path: Path) -> None:
    done = tune(tmp_path / "none", *options[:2], "--model", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: --model: ") and "has no config.json" in done.stderr
    assert not (tmp_path / "none").exists()
