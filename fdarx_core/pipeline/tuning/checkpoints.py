"""What a training can be gone on from: one file a checkpoint, in the run, on a disk or on S3."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass, field
from typing import Any

from fdarx_core.retrieval.models import load_module
from fdarx_core.storage import RunDirectory
from fdarx_core.tuning.training import LossPoint

_FOLDER = "checkpoints"


@dataclass(slots=True)
class State:
    """After which step, the adapter's weights then and at the lowest validation loss, the optimizer's own numbers, and
    all that the curve has so far."""

    step: int = 0
    weights: dict[str, Any] = field(default_factory=dict)
    best: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    curve: list[LossPoint] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of one run. Ray's own are folders copied file by file; these appear whole or not at all, through
    the storage that everything else of a run goes through, and outlive the cluster that wrote them.
    """

    run: RunDirectory

    def write(self, state: State) -> None:
        """Write the newest checkpoint, and delete those before it."""
        torch = load_module("torch", "fine-tuning")
        stream = io.BytesIO()
        torch.save({**_fields(state), "curve": [asdict(one) for one in state.curve]}, stream)
        place = self.run.file(f"{_FOLDER}/step-{state.step:07d}.pt")
        place.write_bytes(stream.getvalue())
        for other in self.run.file(_FOLDER).list():
            if other.name < place.name:
                other.delete()

    def latest(self) -> State | None:
        """Return the latest checkpoint, None if there is none."""
        found = self.run.file(_FOLDER).list()
        if not found:
            return None
        torch = load_module("torch", "fine-tuning")
        fields = torch.load(io.BytesIO(found[-1].read_bytes()), map_location="cpu", weights_only=True)
        return State(**fields | {"curve": [LossPoint(**one) for one in fields["curve"]]})


def _fields(state: State) -> dict[str, Any]:
    return {name: getattr(state, name) for name in ("step", "weights", "best", "optimizer")}
