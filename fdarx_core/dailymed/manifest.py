"""What a folder of fetched labels holds, and where each file came from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime, timezone

import orjson
from pydantic import TypeAdapter, ValidationError

from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.json_lines import read_json_lines

NAME = "manifest.jsonl"

_SAVE_EVERY = 100


@dataclass(frozen=True, slots=True)
class Fetched:
    """One file: `file` is its path in the folder, `bytes` and `sha256` are of its content.

    `set_id`, `version`, `published` (ISO 8601) and `title` are a label's; `md5`, `etag` and `last_modified` are what
    was published of a bulk release, "" where nothing was.
    """

    file: str
    url: str
    bytes: int
    sha256: str
    fetched_at: str
    set_id: str = ""
    version: int = 0
    published: str = ""
    title: str = ""
    md5: str = ""
    etag: str = ""
    last_modified: str = ""


_ROW = TypeAdapter(Fetched)


class Manifest:
    """The folder's `manifest.jsonl`, one JSON object a file, sorted; it appears whole or not at all."""

    def __init__(self, place: Location) -> None:
        """Raises StorageError. A line that can't be read is left out, and its file fetched again."""
        self._place, self._unsaved = place, 0
        self._entries: dict[str, Fetched] = {}
        if (place / NAME).exists():
            for line in read_json_lines(place / NAME):
                self._read(line.row)

    def held(self, file: str) -> Fetched | None:
        """The entry of a file that stands there with the size it should have."""
        entry = self._entries.get(file)
        try:
            return entry if entry and (self._place / file).size() == entry.bytes else None
        except StorageError:
            return None

    def add(self, entry: Fetched) -> None:
        """Saved after every hundredth or tenth part, whichever is more: a killed job fetches few labels twice."""
        self._entries[entry.file] = entry
        self._unsaved += 1
        if self._unsaved >= max(_SAVE_EVERY, len(self._entries) // 10):
            self.save()

    def save(self) -> None:
        if self._unsaved:
            rows = (orjson.dumps(dataclasses.asdict(self._entries[file])) + b"\n" for file in sorted(self._entries))
            (self._place / NAME).write_bytes(b"".join(rows))
            self._unsaved = 0

    def _read(self, row: dict[str, object]) -> None:
        try:
            entry = _ROW.validate_python(row)
        except ValidationError:
            return
        self._entries[entry.file] = entry


def now() -> str:
    """The time in UTC, ISO 8601 to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
