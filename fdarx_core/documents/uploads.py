"""Documents that clients of the service have uploaded: their ids and sources in an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from fdarx_core.records import ANONYMOUS, UPLOADS, Chunk, content_id
from fdarx_core.storage import Location


def upload_id(client: str, document_id: str) -> str:
    """Return the id of a client's document, which no document of another client and no other document has."""
    return f"{UPLOADS}/{client}/{document_id}"


def as_upload(chunks: Sequence[Chunk], client: str, file: str) -> list[Chunk]:
    """Return the chunks of a document as those of a client's upload.

    Args:
        chunks: the chunks of one document, as they are read from a file.
        client: the name of a key, or `ANONYMOUS`.
        file: the name of the file within the client's folder, and the member of an archive after "!".
    """
    return [
        replace(
            chunk,
            id=content_id(UPLOADS, client, chunk.id),
            document_id=upload_id(client, chunk.document_id),
            set_id=chunk.set_id and upload_id(client, chunk.set_id),
            source=upload_id(client, file),
        )
        for chunk in chunks
    ]


class UploadFolder:
    """The folder of uploads of an index. A file in it is an upload, also where `fdarx index` reads it again."""

    def __init__(self, index: Location) -> None:
        self._folder = index / UPLOADS

    def locate(self, location: str) -> tuple[str, str] | None:
        """Return client and file (see `as_upload`) of a path or address; None for one outside of the folder."""
        inside = PurePosixPath(self._resolve(location)) if self._resolved else None
        if inside is None or not inside.is_relative_to(self._resolved):
            return None
        client, *names = inside.relative_to(self._resolved).parts
        return (client, "/".join(names)) if names else (ANONYMOUS, client)  # once there was one folder for all clients

    @cached_property
    def _resolved(self) -> str:
        """The address of the folder; "" where there is none."""
        return self._resolve(self._folder.address) if self._folder.is_dir() else ""

    def _resolve(self, address: str) -> str:
        return address if self._folder.is_remote else str(Path(address).resolve())
