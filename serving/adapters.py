"""LoRA adapters in a folder, on a disk or on S3: which there are, and one of them where an engine can read it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fdarx_core.storage import Location

CONFIG = "adapter_config.json"
"""What PEFT calls it; a folder that holds it is an adapter."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class AdapterError(Exception):
    """Why an adapter can't be had, and what to do, on one line. `status` is HTTP's: 404 there is none, 400 unfit."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def adapter_folder_fault(folder: str) -> str | None:
    """What is wrong with a local folder of adapters, on one line; None where it can be one, or is not local."""
    place = Location(folder)
    if place.is_remote:
        return None
    if not place.is_dir():
        return f"{place} is no directory on this machine; every machine, this one included, must have it there"
    if (place / CONFIG).exists():
        return f"{place} is itself an adapter; give {place.parent}, and ask for {place.name}"
    return None


def fetch_adapter(folder: Location, name: str, largest: int, copies: Path) -> Path:
    """The local directory of the adapter `name` of `folder`, whose rank is at most `largest`.

    One that is on S3 is copied to `copies`/`name`. Raises AdapterError, and StorageError where S3 can't be reached.
    """
    place = folder / name
    if not _NAME.fullmatch(name) or not (place / CONFIG).exists():
        raise AdapterError(404, f"there is no adapter {name!r} in {folder}, which holds {_adapter_names(folder)}")
    rank = _config(place).get("r")
    if not isinstance(rank, int):
        raise AdapterError(400, f"{place / CONFIG} names no LoRA rank; save the adapter there as PEFT does")
    if rank > largest:
        raise AdapterError(400, f"adapter {name} has rank {rank}; set adapters.rank of the served model to {rank}")
    if not place.is_remote:
        return Path(str(place))
    copy = copies / name
    copy.mkdir(exist_ok=True)
    for file in place.list():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def _config(place: Location) -> dict[str, Any]:
    try:
        found = json.loads((place / CONFIG).read_bytes())
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _adapter_names(folder: Location) -> str:
    names = [place.parent.name for place in Location.glob(f"{folder}/*/{CONFIG}")]
    return ", ".join(names) or f"none (no folder with {CONFIG})"
