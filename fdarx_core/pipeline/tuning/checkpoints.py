"""Checkpoints of a training: one file per checkpoint in the run, on a disk or on S3.

Ray's own checkpoints are folders copied file by file; these appear whole or not at all, through the storage that
everything else of a run goes through, and outlive the cluster that wrote them.
"""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from fdarx_core.retrieval.models import load_module
from fdarx_core.storage import RunDirectory
from fdarx_core.tuning.training import LossPoint

_FOLDER = "checkpoints"


@dataclass(slots=True)
class TrainingState:
    """After which step, the adapter's weights then and at the lowest validation loss, the optimizer's own numbers, and
    all that the curve has so far."""

    step: int = 0
    weights: dict[str, Any] = field(default_factory=dict)
    best: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    curve: list[LossPoint] = field(default_factory=list)


def write_checkpoint(run: RunDirectory, state: TrainingState) -> None:
    """Write the newest checkpoint, and delete those before it."""
    torch = load_module("torch", "fine-tuning")
    stream = io.BytesIO()
    values = {one.name: getattr(state, one.name) for one in fields(state)}
    torch.save({**values, "curve": [asdict(one) for one in state.curve]}, stream)
    place = run.file(f"{_FOLDER}/step-{state.step:07d}.pt")
    place.write_bytes(stream.getvalue())
    for other in run.file(_FOLDER).list():
        if other.name < place.name:
            other.delete()


def latest_checkpoint(run: RunDirectory) -> TrainingState | None:
    """Return the latest checkpoint, None if there is none."""
    found = run.file(_FOLDER).list()
    if not found:
        return None
    torch = load_module("torch", "fine-tuning")
    values = torch.load(io.BytesIO(found[-1].read_bytes()), map_location="cpu", weights_only=True)
    return TrainingState(**values | {"curve": [LossPoint(**one) for one in values["curve"]]})
