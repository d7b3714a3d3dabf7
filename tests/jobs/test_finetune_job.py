"""`fdarx finetune` on a tiny model: the loss falls, a killed run goes on, two workers do as one does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import fdarx_core as fdarx
from fdarx_core.records import Reject
from fdarx_core.storage import RunConflict, RunDirectory
from fdarx_core.tuning.answerer_training import ADAPTER_FILES
from fdarx_core.tuning.evaluation import BASE, TUNED, TunedAnswer, stored_changes
from fdarx_core.tuning.pairs import TrainingPair
from jobs import cli
from tests.jobs.evaluating import rows_of
from tests.jobs.tuning_runs import begun, checkpoints, curve_of, losses, options_in, tune
from tests.retrieval import tiny_models

pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("bert_score")

pytestmark = [pytest.mark.models, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return options_in(tmp_path_factory.mktemp("tuning"))


@pytest.fixture(scope="module")
def whole(options: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed, its answers measured by BERTScore too."""
    texts = Path(options[1]).read_text().splitlines()
    bert = tiny_models.encoder(texts, tmp_path_factory.mktemp("bert"), 512)
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert tune(out, options, "--bertscore-model", bert, "--bertscore-layers", "1") == 0
    return out


def test_the_loss_falls_and_all_is_told(whole: Path) -> None:
    run = RunDirectory.open(str(whole))
    info, curve = run.info(), curve_of(whole)
    assert info["status"] == "complete"
    assert info["steps"] == info["steps_planned"] == len(curve) > 10
    looks = [one.validation_loss for one in curve if one.validation_loss is not None]
    assert curve[-1].loss < curve[0].loss - 0.5
    assert info["validation_loss"] == min(looks) < looks[0] - 0.5
    pairs = rows_of(whole, "pairs", TrainingPair)
    assert sum(info["pairs"].values()) == len(pairs) == 96 - len(rows_of(whole, "rejects", Reject))
    assert info["versions"].keys() > {"torch", "transformers", "trl", "peft"}
    assert all((whole / "adapter" / name).stat().st_size for name in ADAPTER_FILES)


def test_both_models_are_examined_on_the_test_part_alone(whole: Path) -> None:
    rows = rows_of(whole, "answers", TunedAnswer)
    kept = {one.id for one in rows_of(whole, "pairs", TrainingPair) if one.part == "test"}
    assert {one.id for one in rows if one.model == BASE} == {one.id for one in rows if one.model == TUNED} == kept
    assert {one.answer for one in rows if one.model == BASE} != {one.answer for one in rows if one.model == TUNED}
    found = {measure: means for measure, *means, _ in stored_changes(RunDirectory.open(str(whole)))}
    base, tuned = found["loss"]
    assert base.value is not None and tuned.value is not None and tuned.value < base.value
    assert base.rows == len(kept)
    assert {"rouge_l", "bert_precision", "bert_recall", "bert_f1"} < found.keys()
    assert all(one.bert_f1 is not None and 0 <= one.bert_f1 <= 1 for one in rows)


def test_a_finished_run_does_nothing_more(whole: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = RunDirectory.open(str(whole)).info()["config"]
    assert tune(whole, options, "--bertscore-model", found["bertscore_model"], "--bertscore-layers", "1") == 0
    told = capsys.readouterr()
    assert "complete already" in told.err
    assert f"{whole}/adapter" in told.out and f".\nopen {whole}/report.html" in told.out and "BERTScore F1" in told.out


def test_python_goes_on_with_the_run_of_the_command(whole: Path, options: list[str]) -> None:
    begun = RunDirectory.open(str(whole)).info()
    given = {word.removeprefix("--").replace("-", "_"): value for word, value in zip(*[iter(options)] * 2, strict=True)}
    bert = {name: begun["config"][name] for name in ("bertscore_model", "bertscore_layers")}
    assert fdarx.finetune_answerer(**given, **bert, out=whole).info() == begun
    with pytest.raises(RunConflict, match="rank: was 16, now 4"):
        fdarx.finetune_answerer(**given, **bert, rank=4, out=whole)


def test_its_page_is_drawn_anew(whole: Path) -> None:
    page = whole / "report.html"
    before = page.read_text()
    assert "Loss by step" in before
    page.unlink()
    assert cli.main(["report", str(whole)]) == 0
    assert page.read_text().split("<main")[1] == before.split("<main")[1]


def test_killed_and_resumed_it_ends_as_if_undisturbed(
    whole: Path, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "killed"
    process = begun(out, options)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    done = checkpoints(out)[-1]
    assert RunDirectory.open(str(out)).info()["status"] == "running"
    assert not (out / "curve.parquet").exists()
    assert tune(out, options) == 0
    assert "resuming" in capsys.readouterr().err
    curve, expected = curve_of(out), curve_of(whole)
    assert done < len(expected)
    assert losses(curve) == pytest.approx(losses(expected), rel=1e-5)


def test_two_workers_of_ray_train_make_the_same_steps(whole: Path, options: list[str], tmp_path: Path) -> None:
    """Each takes half of the sequences of a step, so only the order of additions differs."""
    assert tune(tmp_path / "two", options, "--workers", "2") == 0
    assert losses(curve_of(tmp_path / "two")) == pytest.approx(losses(curve_of(whole)), rel=1e-3)


def test_a_model_without_config_stops_the_job_at_once(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        tune(tmp_path / "none", [*options[:2], "--model", str(tmp_path)])
    told = capsys.readouterr().err
    assert stopped.value.code == 2
    assert told.startswith("error: --model: ") and "has no config.json" in told
    assert not (tmp_path / "none").exists()
