"""Files of an index that are what was written, or an error that names them."""

from __future__ import annotations

import time
from contextlib import suppress

import orjson

from fdarx_core.retrieval.index.errors import IndexDamaged, IndexMissing
from fdarx_core.retrieval.index.manifest import FileInfo, Manifest, digest, parse
from fdarx_core.storage import Location, StorageError

POINTER = "index.json"
_ATTEMPTS = 6
_PAUSE = 0.05


def read_file(place: Location, info: FileInfo) -> bytes:
    """Raises `IndexDamaged` where the file is gone, or its size or digest is another."""
    file = place / info.name
    data = read_bytes(file)
    if len(data) != info.size:
        raise IndexDamaged(file, f"has {len(data)} bytes instead of {info.size}")
    if digest(data) != info.digest:
        raise IndexDamaged(file, "has other content than was written")
    return data


def read_bytes(file: Location) -> bytes:
    if not file.exists():
        raise IndexDamaged(file, "is missing")
    return file.read_bytes()


def read_pointer(place: Location) -> str:
    """The current version's name, "" where there is none. Raises `IndexDamaged`."""
    file = place / POINTER
    if not file.exists():
        return ""
    try:
        return str(orjson.loads(_read_replaced(file))["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise IndexDamaged(file, f"can't be read: {error!r}") from error


def _read_replaced(file: Location) -> bytes:
    """On S3 a file that is replaced while it is read can't be read to its end, and is read anew."""
    for attempt in range(_ATTEMPTS - 1):
        with suppress(StorageError):
            return file.read_bytes()
        time.sleep(_PAUSE * 2**attempt)
    return file.read_bytes()


def write_file(place: Location, name: str, data: bytes) -> FileInfo:
    (place / name).write_bytes(data)
    return FileInfo(name, len(data), digest(data))


def manifest_name(version: str) -> str:
    return f"versions/{version}.json"


def read_manifest(place: Location, version: str) -> Manifest:
    """Raises `IndexDamaged` where its bytes are not those that its name is a hash of."""
    file = place / manifest_name(version)
    try:
        manifest = parse(read_bytes(file))
    except ValueError as error:
        raise IndexDamaged(file, f"can't be read: {error}") from error
    if manifest.version != version:
        raise IndexDamaged(file, "has other content than was written")
    return manifest


def find_version(place: Location, version: str) -> Manifest:
    """One that is asked for by name. Raises `IndexMissing`, with those that there are, where it is not there."""
    if not (place / manifest_name(version)).exists():
        there = [file.name.removesuffix(".json") for file in (place / "versions").list() if file.suffix == ".json"]
        raise IndexMissing(f"{place} has no version {version}; it has {', '.join(there) or 'none'}")
    return read_manifest(place, version)
