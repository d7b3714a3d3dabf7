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

from fdarx_core.retrieval.models import device, has_bfloat16, load_module

PURPOSE = "fine-tuning"
STATE = "trainer_state.json"
"""The file that transformers writes last into a checkpoint; its `log_history` holds the losses."""
TRACKERS = ("mlflow", "wandb")
"""The experiment trackers of transformers to which a training can report."""
_EVALUATIONS_AN_EPOCH = 4

Report = Callable[[int, int, str], None]
"""Is told of each step: its number, the number of steps planned, and a note."""


@dataclass(slots=True)
class LossPoint:
    """One step of the loss curve.

    `loss` is that of the step before its update, `validation_loss` that after it, None without an evaluation. The unit
    depends on what is trained: nats per answer token for an answerer, nats per pair for a verifier or a retriever.
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


def training_arguments(
    folder: Path,
    *,
    rate: float,
    epochs: int,
    seed: int,
    report_to: Sequence[str] = (),
    bf16: bool | None = None,
) -> dict[str, Any]:
    """Return the arguments of transformers' `TrainingArguments` that all trainings have.

    Args:
        folder: where checkpoints are written, one at each evaluation; the newest and the best are kept.
        rate: the highest learning rate.
        epochs: the largest number of epochs.
        seed: of the weights that are new, and of the order of training.
        report_to: experiment trackers, by the names that transformers gives them.
        bf16: whether to multiply numbers of 16 bits; by default on GPUs that have instructions for them.
    """
    on_gpu = device().startswith("cuda")
    return {
        "output_dir": str(folder),
        "learning_rate": rate,
        "num_train_epochs": epochs,
        "eval_strategy": "steps",
        "save_total_limit": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_loss",
        "greater_is_better": False,
        "restore_callback_states_from_checkpoint": True,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # a loss that is not finite must be seen
        "seed": seed,
        "bf16": on_gpu and has_bfloat16() if bf16 is None else bf16,
        "use_cpu": not on_gpu,
        "dataloader_pin_memory": on_gpu,
        "report_to": list(report_to) or "none",
        "disable_tqdm": True,
    }


def run_training(trainer: Any, *, batch: int, evaluate_every: int | None) -> list[LossPoint]:
    """Train, or go on from the newest checkpoint; the weights are then those of the lowest validation loss.

    Args:
        trainer: a trainer of transformers with `training_arguments`.
        batch: rows of its training data in a step.
        evaluate_every: steps between evaluations; None evaluates four times an epoch.

    Returns:
        The loss curve.
    """
    every = evaluate_every or max(1, len(trainer.train_dataset) // batch // _EVALUATIONS_AN_EPOCH)
    trainer.args.eval_steps = trainer.args.save_steps = every
    trainer.remove_callback(load_library("transformers").PrinterCallback)
    place = newest_checkpoint(Path(trainer.args.output_dir), clean=trainer.is_world_process_zero())
    trainer.train(resume_from_checkpoint=place)
    return loss_curve(trainer.state.log_history)


def training_callbacks(patience: int, report: Report) -> list[Any]:
    """Return callbacks that report steps, stop a training that diverged, and stop one that no longer improves.

    Args:
        patience: evaluations without a lower validation loss after which training ends.
        report: is told of each step.
    """
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
    for place in sorted(folder.glob("checkpoint-*"), key=lambda one: int(one.name.rpartition("-")[2]), reverse=True):
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
