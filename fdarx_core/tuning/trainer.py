"""What a trainer of transformers needs: libraries, callbacks, checkpoints to resume from, and the loss curve."""

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

from fdarx_core.retrieval.models import load_module

PURPOSE = "fine-tuning"
STATE = "trainer_state.json"
"""The file that transformers writes last into a checkpoint; its `log_history` holds the losses."""

Report = Callable[[int, int, str], None]
"""Is told of each step: its number, the number of steps planned, and a note."""


@dataclass(slots=True)
class LossPoint:
    """One step of the loss curve.

    `loss` is that of the step before its update, `validation_loss` that after it, None without an evaluation; both are
    in nats per answer token.
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


def training_callbacks(patience: int, report: Report) -> list[Any]:
    """Return callbacks that report steps, stop a training that diverged, and one that no longer improves."""
    library = load_library("transformers")

    class Reporting(library.TrainerCallback):  # type: ignore[misc, name-defined]
        """Reports losses as the trainer logs them."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            for name in ("loss", "eval_loss"):
                if logs and name in logs and state.is_world_process_zero:
                    step, loss = state.global_step, float(logs[name])
                    if not math.isfinite(loss):  # no later step can recover
                        raise ValueError(
                            f"the loss of step {step} is {loss}: the training diverged; set a lower --rate"
                        )
                    title = "loss" if name == "loss" else "validation loss"
                    report(step, state.max_steps, f"{title} {loss:.3f}")

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
