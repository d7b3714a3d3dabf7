"""Adding one uploaded file to an index, through the same code as `fdarx index`, in this process."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from fdarx_core.documents import READ_ENDINGS, find_documents
from fdarx_core.pipeline.indexing import Indexing
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.records import Reject
from fdarx_core.retrieval.index import IndexStore, Manifest
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
from fdarx_core.storage import Location, StorageError

FOLDER = "uploads"
"""The folder of uploaded files within that of the index. A file stays there as the source of its documents."""
CHUNK_SIZE, OVERLAP = 10_000, 2_000
"""The options of `fdarx index` for an index that does not tell its own."""
_LONGEST_NAME = 120


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


def upload_name(given: str) -> str:
    """Return the name under which an uploaded file is kept: without folders and unusual characters.

    Raises ValueError for a name without a letter or digit, and for one whose ending no reader has.
    """
    name = re.sub(r"[^\w. ()-]+", "_", re.split(r"[/\\]", given)[-1]).strip(" .")
    stem, dot, ending = name.rpartition(".")
    if not dot or f".{ending.lower()}" not in READ_ENDINGS:
        raise ValueError(f"the name {given[:60]!r} ends in none of {', '.join(READ_ENDINGS)}, which are read")
    if not re.search(r"[^\W_]", stem):
        raise ValueError(f"the name {given[:60]!r} has no letter or digit before its ending")
    return f"{stem[: _LONGEST_NAME - len(ending)]}.{ending.lower()}"


def add_upload(place: str, name: str, data: bytes, cosine_model: str | None = None) -> UploadedDocuments:
    """Add the documents of a file to an index, as a new version of it.

    A document of an earlier file of this name that the file has no more is dropped; a newer version of a label takes
    the place of the older one.

    Args:
        place: the folder of the index, on disk or s3://; it must be an index already.
        name: the name of the file, as `upload_name` returns it.
        data: its bytes.
        cosine_model: the directory of the index's embedding model; None: MiniLM, where it is installed.

    Returns:
        What became of it; where the index takes no documents, `refused` says why.
    """
    index = Location(place)
    try:
        base = IndexStore(index).current()
        if base is None:
            return UploadedDocuments(refused=f"{place} is not an index; make one with fdarx index")
        return _add(index, base, index / FOLDER / name, data, cosine_model)
    except (StorageError, ModelMissing, OSError) as error:
        return UploadedDocuments(refused=str(error))


def _add(index: Location, base: Manifest, file: Location, data: bytes, cosine_model: str | None) -> UploadedDocuments:
    model = instruction = None
    if base.encoder is not None:
        model, instruction = ModelDirectories(cosine=cosine_model).of("cosine"), base.encoder.instruction
    size, overlap = base.chunking.get("size", CHUNK_SIZE), base.chunking.get("overlap", OVERLAP)
    file.write_bytes(data)
    indexing = Indexing(LocalExecutor(), index, size, overlap, model, instruction, _tell_nobody)
    manifest = indexing.run(find_documents([str(file)]), [])
    if not indexing.documents:
        file.delete()
    folder = f"{file.parent}/"
    rejected = [
        replace(one, id=one.id.removeprefix(folder), source=one.source.removeprefix(folder), detail=_told(one, folder))
        for one in indexing.rejects
    ]
    return UploadedDocuments(indexing.documents, indexing.embedded, rejected, manifest.version)


def _told(reject: Reject, folder: str) -> str:
    """Return the detail of a reject without the path of the folder."""
    return reject.detail.replace(folder, "")


def _tell_nobody(phase: str, done: int, total: int, note: str) -> None:
    """Take the progress of the indexing; an upload shows none."""
