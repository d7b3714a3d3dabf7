"""Checkpoints of a training in its run: written there on a disk, copied there and back on S3.

The file `trainer_state.json` of a checkpoint is copied last and deleted first, so that a checkpoint that has it is
whole. Checkpoints outlive the cluster that wrote them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fdarx_core.storage import Location, RunDirectory
from fdarx_core.tuning.trainer import STATE, load_library

_FOLDER = "checkpoints"


@contextmanager
def checkpoint_folder(run: RunDirectory) -> Iterator[Path]:
    """Return the folder of checkpoints for a trainer on this machine; on S3 a temporary copy of the whole ones."""
    place = run.file(_FOLDER)
    if not place.is_remote:
        yield Path(str(place))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, files in _whole_checkpoints(place).items():
            for file in files:
                download(file, Path(folder) / name / file.name)
        yield Path(folder)


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
    if not run.file(_FOLDER).is_remote:
        return []
    place, torch = run.file(_FOLDER), load_library("torch")

    class Uploading(load_library("transformers").TrainerCallback):  # type: ignore[misc, name-defined]
        """Copies what this machine wrote: with several machines, each writes the state of its own random numbers."""

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            name = f"checkpoint-{state.global_step}"
            if state.is_local_process_zero:
                _upload_files(Path(args.output_dir) / name, place / name)
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                torch.distributed.barrier()
            if state.is_world_process_zero:
                upload(Path(args.output_dir) / name / STATE, place / name / STATE)
                _delete_others(place, Path(args.output_dir))

    return [Uploading()]


def _upload_files(folder: Path, place: Location) -> None:
    for path in sorted(folder.iterdir()):
        if path.name != STATE:
            upload(path, place / path.name)


def _delete_others(place: Location, kept: Path) -> None:
    """Delete the checkpoints that the trainer has deleted on this machine, the state of each first."""
    files = [file for file in place.list(recursive=True) if not (kept / file.parent.name).exists()]
    for file in sorted(files, key=lambda file: file.name != STATE):
        file.delete()
