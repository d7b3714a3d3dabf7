"""What every training shares: arguments of transformers' Trainer, checkpoints to resume from, and the loss curve."""

from __future__ import annotations

import json
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from fdarx_core.retrieval.models import device, has_bfloat16, load_module

PURPOSE = "fine-tuning"
STATE = "trainer_state.json"
"""The file that transformers writes last into a checkpoint; its `log_history` holds the losses."""
_EVALUATIONS_AN_EPOCH = 4

Report = Callable[[int, int, str], None]
"""Is told of each step: its number, the number of steps planned, and a note."""


@dataclass(slots=True)
class LossPoint:
    """One step of the loss curve.

    `loss` is that of the step before its update, `validation_loss` that after it, None without an evaluation. The unit
    depends on what is trained: nats per answer token for an answerer, nats per question for a retriever.
    """

    step: int
    epoch: float
    loss: float
    rate: float
    validation_loss: float | None = None


def loss_curve(history: Iterable[Mapping[str, Any]]) -> list[LossPoint]:
    """Return the curve of a `log_history`."""
    rows = list(history)
    evaluated = {row["step"]: float(row["eval_loss"]) for row in rows if "eval_loss" in row}
    return [
        LossPoint(row["step"], row["epoch"], float(row["loss"]), row["learning_rate"], evaluated.get(row["step"]))
        for row in rows
        if "loss" in row
    ]


def best_point(curve: Sequence[LossPoint]) -> LossPoint | None:
    """Return the first point with the lowest validation loss, None before the first evaluation."""
    evaluated = [point for point in curve if point.validation_loss is not None]
    return min(evaluated, key=lambda point: point.validation_loss or 0.0, default=None)


def curve_summary(curve: Sequence[LossPoint]) -> dict[str, Any]:
    """Return the steps of a training, and the best step with its validation loss, as run.json holds them."""
    best = best_point(curve)
    assert best is not None  # the last step is evaluated
    return {"steps": curve[-1].step, "best_step": best.step, "validation_loss": best.validation_loss}


def summary_line(info: Mapping[str, Any]) -> str:
    """Return the entries of `curve_summary` in words."""
    return f"{info['steps']:,} steps; lowest validation loss {info['validation_loss']:.3f} at {info['best_step']:,}"


def check_finite(step: int, loss: float) -> None:
    """Raise ValueError where the loss is not finite, since no later step can recover."""
    if not math.isfinite(loss):
        raise ValueError(f"the loss of step {step} is {loss}: the training diverged; set a lower --rate")


def load_library(name: str) -> Any:
    """Import a library that trains. Its bars and routine warnings would break the job's line of progress.

    TRL would send telemetry over the network, and is told not to.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # TRL and PEFT use old names
    module = load_module(name, PURPOSE)
    load_module("transformers", PURPOSE).logging.set_verbosity_error()
    load_module("datasets", PURPOSE).disable_progress_bars()
    return module


class TrainingSpec(BaseModel):
    """The base model, and how it is trained: the options that all trainings have."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    model: str
    """base model: a local directory"""
    rate: float = Field(2e-5, gt=0)
    """highest learning rate"""
    epochs: int = Field(3, ge=1)
    """maximum number of epochs"""
    batch: int = Field(32, ge=1)
    """examples per step"""
    length: int = Field(256, ge=16)
    """tokens of an example"""
    evaluate_every: int | None = Field(None, ge=1)
    """steps between evaluations of the validation loss, each with a checkpoint (a quarter of an epoch)"""
    patience: int = Field(4, ge=1)
    """stop after this many consecutive evaluations without a lower validation loss"""
    resamples: int = Field(2000, ge=100)
    """number of bootstrap resamples; more give more stable intervals"""
    seed: int = 0
    """random seed of the split, the order of training and the intervals"""


def training_arguments(folder: Path, spec: TrainingSpec, *, bf16: bool | None = None) -> dict[str, Any]:
    """Return the arguments of transformers' `TrainingArguments` that all trainings have.

    A checkpoint is written to the folder at each evaluation; the newest and the best are kept. `bf16` is by default on
    for GPUs that have instructions for it.
    """
    on_gpu = device().startswith("cuda")
    return {
        "output_dir": str(folder),
        "learning_rate": spec.rate,
        "num_train_epochs": spec.epochs,
        "eval_strategy": "steps",
        "save_total_limit": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_loss",
        "greater_is_better": False,
        "restore_callback_states_from_checkpoint": True,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # a loss that is not finite must be seen
        "seed": spec.seed,
        "bf16": on_gpu and has_bfloat16() if bf16 is None else bf16,
        "use_cpu": not on_gpu,
        "dataloader_pin_memory": on_gpu,
        "report_to": "none",
        "disable_tqdm": True,
    }


def run_training(trainer: Any, spec: TrainingSpec) -> list[LossPoint]:
    """Train, or go on from the newest checkpoint; the weights are then those of the lowest validation loss.

    `trainer` is one of transformers with `training_arguments`. Returns the loss curve.
    """
    every = spec.evaluate_every or max(1, len(trainer.train_dataset) // spec.batch // _EVALUATIONS_AN_EPOCH)
    trainer.args.eval_steps = trainer.args.save_steps = every
    trainer.remove_callback(load_library("transformers").PrinterCallback)
    place = newest_checkpoint(Path(trainer.args.output_dir), clean=trainer.is_world_process_zero())
    trainer.train(resume_from_checkpoint=place)
    return loss_curve(trainer.state.log_history)


def training_callbacks(patience: int, report: Report) -> list[Any]:
    """Return callbacks that report steps, stop a training that diverged, and one that no longer improves."""
    library = load_library("transformers")

    class Reporting(library.TrainerCallback):  # type: ignore[misc, name-defined]
        """Reports losses as the trainer logs them."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            for name in ("loss", "eval_loss"):
                if logs and name in logs and state.is_world_process_zero:
                    check_finite(state.global_step, float(logs[name]))
                    title = "loss" if name == "loss" else "validation loss"
                    report(state.global_step, state.max_steps, f"{title} {float(logs[name]):.3f}")

    return [library.EarlyStoppingCallback(patience), Reporting()]


def newest_checkpoint(folder: Path, *, clean: bool = True) -> str | None:
    """Return the newest checkpoint whose state can be read, None without one.

    The state also names the best checkpoint by its path, which is corrected where the folder has moved. `clean` deletes
    checkpoints whose state cannot be read: the process was killed while it wrote them.
    """
    for place in sorted(
        folder.glob("checkpoint-*"), key=lambda place: int(place.name.rpartition("-")[2]), reverse=True
    ):
        try:
            state = json.loads((place / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            if clean:
                shutil.rmtree(place)
            continue
        best = state.get("best_model_checkpoint")
        if clean and best and Path(best).parent != folder:
            state["best_model_checkpoint"] = str(folder / Path(best).name)
            (place / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        return str(place)
    return None
