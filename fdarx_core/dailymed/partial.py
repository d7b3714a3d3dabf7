"""A bulk file as far as it has come, on a local disk, with what its server said of it: so it can be gone on with."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError

from fdarx_core.storage import StorageError


@dataclass(frozen=True, slots=True)
class Mark:
    """Which version of which file it is. `length` is 0, the others "" where the server does not say."""

    url: str
    md5: str = ""
    etag: str = ""
    last_modified: str = ""
    length: int = 0

    @property
    def validator(self) -> str:
        """What If-Range takes: a strong ETag, else the date of the last change."""
        return self.etag if self.etag.startswith('"') else self.last_modified


_MARK = TypeAdapter(Mark)

_CHUNK = 1 << 20


class Partial:
    """The file `NAME` in a folder of half-downloaded files, and its note `NAME.json`. All of it raises StorageError."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path, self._note = folder / name, folder / f"{name}.json"

    @property
    def size(self) -> int:
        with self._explained():
            return self.path.stat().st_size if self.path.exists() else 0

    def mark(self, url: str, md5: str) -> Mark | None:
        """What is known of the bytes that are there; None where they are of no use for this address and checksum."""
        try:
            mark = _MARK.validate_json(self._note.read_bytes())
        except (OSError, ValidationError):
            return None
        return mark if self.size and mark.validator and (mark.url, mark.md5) == (url, md5) else None

    def begin(self, mark: Mark) -> None:
        """Forgets what was there. The note is written first: bytes without one are never gone on with."""
        with self._explained():
            self.discard()
            self._note.parent.mkdir(parents=True, exist_ok=True)
            self._note.write_bytes(orjson.dumps(dataclasses.asdict(mark)))
            self.path.touch()

    @contextmanager
    def appending(self, start: int) -> Iterator[Callable[[bytes], None]]:
        """What writes from byte `start` on; what stood behind it is cut off."""
        with self._explained():
            stream = self.path.open("r+b")
            stream.truncate(start)
            stream.seek(start)

        def write(chunk: bytes) -> None:
            with self._explained():
                stream.write(chunk)

        try:
            yield write
        finally:
            with self._explained():
                stream.close()

    def digests(self) -> tuple[str, str]:
        """SHA-256 and MD5 of what is there, in hexadecimal."""
        sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
        with self._explained(), self.path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                sha256.update(chunk)
                md5.update(chunk)
        return sha256.hexdigest(), md5.hexdigest()

    def discard(self) -> None:
        with self._explained():
            self.path.unlink(missing_ok=True)
            self._note.unlink(missing_ok=True)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            said = error.strerror or error
            raise StorageError(
                f"cannot use {self.path}: {said}; free some space, or choose another --scratch"
            ) from error
