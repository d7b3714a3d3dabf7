"""Adding one uploaded file to an index, through the same code as `fdarx index`."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fdarx_core.documents import READ_ENDINGS
from fdarx_core.documents.isolated import IsolatedParser, ParsingLimits, ParsingResult
from fdarx_core.documents.uploads import as_upload
from fdarx_core.pipeline.indexing import Indexing
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.records import UPLOADS, Chunk, Reject, uploader_of
from fdarx_core.retrieval.index import IndexStore, Manifest
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
from fdarx_core.storage import Location, StorageError

_LONGEST_NAME = 120
_MEMBER = "!"
"""What stands between the name of an archive and that of its member in a source; names of uploads never have it."""


@dataclass(slots=True)
class UploadedDocuments:
    """What became of an uploaded file.

    Attributes:
        added: the documents of the file that the index now has.
        chunks: their chunks that the index did not have before.
        rejected: the documents and parts that were not added; their ids and sources begin with the file's name.
        version: the version of the index that has them.
        refused: why the index takes no documents, "" where it does.
    """

    added: int = 0
    chunks: int = 0
    rejected: list[Reject] = field(default_factory=list)
    version: str = ""
    refused: str = ""


def upload_name(file_name: str) -> str:
    """Return the name under which an uploaded file is kept: without folders and unusual characters.

    Raises ValueError for a name without a letter or digit, and for one whose ending no reader has.
    """
    name = re.sub(r"[^\w. ()-]+", "_", re.split(r"[/\\]", file_name)[-1]).strip(" .")
    stem, dot, ending = name.rpartition(".")
    if not dot or f".{ending.lower()}" not in READ_ENDINGS:
        raise ValueError(f"the name {file_name[:60]!r} ends in none of {', '.join(READ_ENDINGS)}, which are read")
    if not re.search(r"[^\W_]", stem):
        raise ValueError(f"the name {file_name[:60]!r} has no letter or digit before its ending")
    return f"{stem[: _LONGEST_NAME - len(ending)]}.{ending.lower()}"


class UploadIndexer:
    """Adds uploaded files to indexes. Files are read in processes of their own, several at a time."""

    def __init__(self, limits: ParsingLimits, cosine_model: str | None = None) -> None:
        """`cosine_model` is the directory of the indexes' embedding model; None: MiniLM, where it is installed."""
        self._parser, self._cosine_model = IsolatedParser(limits), cosine_model

    def close(self) -> None:
        """End the process that waits for the next file."""
        self._parser.close()

    __del__ = close
    """Ray Serve calls this before it ends a replica."""

    async def add(self, place: str, client: str, name: str, data: bytes) -> UploadedDocuments:
        """Add the documents of a file to an index, as a new version of it.

        They are documents of the client: a file takes the place of the client's earlier one of this name, and a newer
        version of a label of the client's older one. What others have added, and what `fdarx index` has, stays. The
        file is kept, and takes the place of the earlier one, once some of its documents are indexed.

        Where the task is cancelled, the file is not read any further, and is not added unless the last of its chunks
        are being written.

        Args:
            place: the folder of the index, on disk or s3://; it must be an index already.
            client: the name of a key, or `ANONYMOUS`.
            name: the name of the file, as `upload_name` returns it.
            data: its bytes.

        Returns:
            What became of it; where the index takes no documents, `refused` says why.
        """
        index = Location(place)
        try:
            base = await asyncio.to_thread(IndexStore(index).current)
            if base is None:
                return UploadedDocuments(refused=f"{place} is not an index; make one with fdarx index")
            parsed = await self._parse(base, client, name, data)
            documents = [as_upload(document, client, document[0].source) for document in parsed.documents]
            if not documents:
                return UploadedDocuments(rejected=parsed.rejects, version=base.version)
            stopped = threading.Event()
            try:
                done = await asyncio.to_thread(self._index, index, base, documents, stopped)
            finally:
                stopped.set()
            if done.added:
                await asyncio.to_thread(_keep, index, client, name, data)
        except (StorageError, ModelMissing, OSError) as error:
            return UploadedDocuments(refused=str(error))
        return replace(done, rejected=parsed.rejects + done.rejected)

    async def _parse(self, base: Manifest, client: str, name: str, data: bytes) -> ParsingResult:
        """Return the chunks and rejects of a file; their sources begin with its name."""
        size, overlap = base.chunking["size"], base.chunking["overlap"]
        with TemporaryDirectory(prefix="fdarx-upload-") as folder:
            file = Path(folder) / name
            await asyncio.to_thread(file.write_bytes, data)
            parsed = await self._parser.parse(file, size, overlap, client)
        path = f"{folder}/"
        for chunk in (chunk for document in parsed.documents for chunk in document):
            chunk.source = chunk.source.removeprefix(path)
        for reject in parsed.rejects:
            reject.id, reject.source = reject.id.removeprefix(path), reject.source.removeprefix(path)
            reject.detail = reject.detail.replace(path, "")
        return parsed

    def _index(
        self, index: Location, base: Manifest, documents: Sequence[list[Chunk]], stopped: threading.Event
    ) -> UploadedDocuments:
        model = instruction = None
        if base.encoder is not None:
            model, instruction = ModelDirectories(cosine=self._cosine_model).of("cosine"), base.encoder.instruction

        def tell(phase: str, done: int, total: int, note: str) -> None:
            if stopped.is_set():
                raise _NobodyWaits

        indexing = Indexing(index, base.chunking["size"], base.chunking["overlap"], model, instruction)
        manifest = indexing.add(LocalExecutor(), tell, documents, _left_out(base, documents))
        return UploadedDocuments(indexing.documents, indexing.embedded, indexing.rejects, manifest.version)


class _NobodyWaits(Exception):
    """The client has gone, or its deadline has passed."""


def _left_out(base: Manifest, documents: Sequence[list[Chunk]]) -> set[str]:
    """Return the ids of the client's documents that came from a file and are not in the present one of its name."""
    first = documents[0][0]
    file = first.source.partition(_MEMBER)[0]
    ids = {document[0].document_id for document in documents}
    return {
        id
        for id, entry in base.entries.items()
        if uploader_of(id) == first.uploaded_by and entry.source.partition(_MEMBER)[0] == file and id not in ids
    }


def _keep(index: Location, client: str, name: str, data: bytes) -> None:
    """Write a file into the folder of its client, which only the user of the service can read."""
    folders = index / UPLOADS, index / UPLOADS / client
    file = folders[1] / name
    if file.is_remote:
        file.write_bytes(data)
        return
    for folder in map(Path, map(str, folders)):
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
    file.write_bytes(data)
    Path(file.address).chmod(0o600)
