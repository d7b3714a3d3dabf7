"""The loss curve, checkpoints that a kill left, and the figures of the test part."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fdarx_core.tuning.evaluation import BASE, TUNED, TunedAnswer, tuning_figures
from fdarx_core.tuning.trainer import STATE, LossPoint, best_point, loss_curve, newest_checkpoint, training_callbacks


@pytest.mark.models  # the callback is a class of transformers
@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_training_that_diverged_is_told_to_go_slower(loss: float) -> None:
    told: list[tuple[int, int, str]] = []
    *_, reporting = training_callbacks(1, lambda *step: told.append(step))
    state = SimpleNamespace(is_world_process_zero=True, global_step=7, max_steps=9)
    reporting.on_log(None, state, None, {"loss": 1.5})
    assert told == [(7, 9, "loss 1.500")]
    with pytest.raises(ValueError, match=r"step 7 .*--rate"):
        reporting.on_log(None, state, None, {"loss": loss})


def test_the_curve_joins_losses_and_evaluations_of_a_step() -> None:
    history = [
        {"step": 1, "epoch": 0.5, "loss": 3.0, "learning_rate": 0.1, "grad_norm": 1.0},
        {"step": 2, "epoch": 1.0, "loss": 2.0, "learning_rate": 0.0},
        {"step": 2, "epoch": 1.0, "eval_loss": 2.5},
        {"step": 2, "epoch": 1.0, "train_runtime": 3.0},
    ]
    assert loss_curve(history) == [LossPoint(1, 0.5, 3.0, 0.1), LossPoint(2, 1.0, 2.0, 0.0, 2.5)]


def curve(*losses: float | None) -> list[LossPoint]:
    return [LossPoint(step, 0.0, 1.0, 0.0, loss) for step, loss in enumerate(losses, 1)]


def test_the_best_point_is_the_first_of_the_lowest() -> None:
    points = curve(3.0, None, 2.0, None, 2.1, 2.0)
    assert best_point(points) is points[2]
    assert best_point(curve(None)) is None


def checkpoint(folder: Path, step: int, best: Path | None = None) -> Path:
    place = folder / f"checkpoint-{step}"
    place.mkdir(parents=True)
    (place / STATE).write_text(json.dumps({"best_model_checkpoint": str(best) if best else None}))
    return place


def test_a_checkpoint_without_a_state_is_deleted_and_an_older_whole_one_taken(tmp_path: Path) -> None:
    whole = checkpoint(tmp_path, 9)
    killed = checkpoint(tmp_path, 10)
    (killed / STATE).write_text('{"best')
    assert newest_checkpoint(tmp_path, clean=False) == str(whole)
    assert killed.exists()
    assert newest_checkpoint(tmp_path) == str(whole)
    assert not killed.exists()
    assert newest_checkpoint(tmp_path / "none") is None


def test_the_best_checkpoint_of_a_folder_that_has_moved_is_found_again(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "here", 3, best=tmp_path / "elsewhere" / "checkpoint-2")
    newest_checkpoint(tmp_path / "here")
    state = json.loads((place / STATE).read_text())
    assert state["best_model_checkpoint"] == str(tmp_path / "here" / "checkpoint-2")


def answer(name: str, group: str, model: str, loss: float) -> TunedAnswer:
    return TunedAnswer(name, group, model, "Q", "R", "A", loss, 0.5)


def test_figures_by_hand() -> None:
    """Differences −1, −1 in one group and −3 in the other: resampled groups give −1, −3, or both together, −5/3."""
    rows = [answer(name, group, BASE, 4.0) for name, group in (("a", "x"), ("b", "x"), ("c", "y"))]
    rows += [replace(row, model=TUNED, loss=3.0 if row.group == "x" else 1.0) for row in rows]
    (measure, base, _, loss), (other, *_, rouge) = tuning_figures(rows, seed=0, resamples=2000)
    assert (measure, base.value, base.rows, base.clusters) == ("loss", 4.0, 3, 2)
    assert loss.value == pytest.approx(-5 / 3)
    assert [loss.low, loss.high] == pytest.approx([-3.0, -1.0])
    assert (other, rouge.value, rouge.low, rouge.high) == ("rouge_l", 0.0, 0.0, 0.0)


def test_a_preferred_answer_is_the_likelier_one() -> None:
    base = replace(answer("a", "x", BASE, 2.0), rejected_loss=1.0)
    rows = [base, replace(base, model=TUNED, loss=0.5)]
    found = {
        measure: (before.value, after.value)
        for measure, before, after, _ in tuning_figures(rows, seed=0, resamples=100)
    }
    assert found["preferred"] == (0.0, 1.0)
