"""Checkpoints of a training in its run: written there on a disk, copied there and back on S3.

The file `trainer_state.json` of a checkpoint is copied last and deleted first, so that a checkpoint that has it is
whole. Checkpoints outlive the cluster that wrote them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fdarx_core.records import content_id
from fdarx_core.storage import Location, RunDirectory
from fdarx_core.tuning.trainer import STATE, load_library


def checkpoints_of(run: RunDirectory) -> Location:
    """Return the folder of the checkpoints in the run."""
    return run.file("checkpoints")


@contextmanager
def checkpoint_folder(run: RunDirectory) -> Iterator[Path]:
    """Return the folder of checkpoints for a trainer on this machine, the same for all its workers.

    For a run on S3 it is a temporary folder, with a copy of the whole checkpoints of the run.
    """
    place = checkpoints_of(run)
    if not place.is_remote:
        yield Path(str(place))
        return
    folder = Path(tempfile.gettempdir()) / f"fdarx-checkpoints-{content_id(str(run.root))}"
    if _is_first_worker():
        shutil.rmtree(folder, ignore_errors=True)  # what a worker that was killed left
        folder.mkdir()
        for name, files in _whole_checkpoints(place).items():
            for file in files:
                download(file, folder / name / file.name)
    _wait_for_all()
    try:
        yield folder
    finally:
        if _is_first_worker():
            shutil.rmtree(folder, ignore_errors=True)


def _is_first_worker() -> bool:
    """Return whether this process is the first worker of the training on its machine."""
    return int(os.environ.get("LOCAL_RANK", "0")) == 0


def _wait_for_all() -> None:
    distributed = load_library("torch").distributed
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()


def _whole_checkpoints(place: Location) -> dict[str, list[Location]]:
    """Return the files of each checkpoint that has all of them, by its name."""
    found: dict[str, list[Location]] = {}
    for file in place.list(recursive=True):
        found.setdefault(file.parent.name, []).append(file)
    return {name: files for name, files in found.items() if any(file.name == STATE for file in files)}


def download(file: Location, path: Path) -> None:
    """Copy a file of a run to a local path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with file.open_input() as source, path.open("wb") as target:
        shutil.copyfileobj(source, target)


def upload(path: Path, file: Location) -> None:
    """Copy a local file to a run, where it appears as a whole."""
    with path.open("rb") as source, file.open_output() as target:
        shutil.copyfileobj(source, target)


def uploading_callback(run: RunDirectory) -> list[Any]:
    """Return the callback of transformers that copies each new checkpoint to a run on S3; none for a run on a disk."""
    place = checkpoints_of(run)
    if not place.is_remote:
        return []

    class Uploading(load_library("transformers").TrainerCallback):  # type: ignore[misc]
        """Copies what the machine of worker 0 wrote, once all its workers have written."""

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            _wait_for_all()
            if state.is_world_process_zero:
                folder = Path(args.output_dir)
                name = f"checkpoint-{state.global_step}"
                for path in sorted((folder / name).iterdir(), key=lambda path: (path.name == STATE, path.name)):
                    upload(path, place / name / path.name)
                _delete_others(place, folder)

    return [Uploading()]


def _delete_others(place: Location, kept: Path) -> None:
    """Delete the checkpoints that the trainer has deleted on this machine, the state of each first."""
    files = [file for file in place.list(recursive=True) if not (kept / file.parent.name).exists()]
    for file in sorted(files, key=lambda file: file.name != STATE):
        file.delete()
