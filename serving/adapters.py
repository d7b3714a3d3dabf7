"""LoRA adapters in a folder, on disk or on S3: checks, and copies that an engine can read."""

from __future__ import annotations

import json
import re
from pathlib import Path

from fdarx_core.storage import Location

CONFIG = "adapter_config.json"
"""PEFT's name of an adapter's configuration; a folder with this file is an adapter."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def adapter_folder_fault(folder: str) -> str | None:
    """Return what is wrong with a local folder of adapters, on one line; None for remote folders and valid ones."""
    place = Location(folder)
    if place.is_remote:
        return None
    if not place.is_dir():
        return f"{place} is not a directory on this machine; it must exist on every machine, including this one"
    if (place / CONFIG).exists():
        return f"{place} is itself an adapter; give {place.parent}, and ask for {place.name}"
    return None


def fetch_adapter(folder: Location, name: str, max_rank: int, copies: Path) -> Path:
    """Return the local directory of the adapter `name` of `folder`, whose rank is at most `max_rank`.

    An adapter on S3 is copied to `copies`/`name`. Raises LookupError for an unknown adapter, ValueError for an
    unsuitable one, each with the remedy, and StorageError where S3 can't be reached.
    """
    place = folder / name
    if not _NAME.fullmatch(name) or not (place / CONFIG).exists():
        names = ", ".join(config.parent.name for config in Location.glob(f"{folder}/*/{CONFIG}"))
        names = names or f"none (no folder with {CONFIG})"
        raise LookupError(f"there is no adapter {name!r} in {folder}; it has {names}")
    try:
        config = json.loads((place / CONFIG).read_bytes())
    except ValueError:
        config = None
    rank = config.get("r") if isinstance(config, dict) else None
    if not isinstance(rank, int):
        raise ValueError(f"{place / CONFIG} has no LoRA rank; save the adapter with PEFT")
    if rank > max_rank:
        raise ValueError(f"adapter {name} has rank {rank}; set adapters.rank of the served model to {rank}")
    if not place.is_remote:
        return Path(str(place))
    copy = copies / name
    copy.mkdir(exist_ok=True)
    for file in place.list():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy
