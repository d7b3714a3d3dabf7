"""Serve deployment that adds uploaded documents to indexes, in a process of its own, so that no search waits for it."""

from __future__ import annotations

from collections.abc import Mapping

from fdarx_core.documents.isolated import ParsingLimits
from fdarx_core.pipeline.uploading import UploadedDocuments, UploadIndexer


class IndexerDeployment:
    """Adds files to the indexes of corpora. A call that is cancelled ends the process that reads its file."""

    def __init__(self, places: Mapping[str, str], cosine_model: str | None, limits: ParsingLimits) -> None:
        """Take the indexes at `places`, by corpus name, and the directory of their embedding model."""
        self._places, self._indexer = dict(places), UploadIndexer(limits, cosine_model)

    async def add(self, corpus: str, client: str, name: str, data: bytes) -> UploadedDocuments:
        """Add the documents of a client's file to a corpus, as `UploadIndexer.add` does."""
        return await self._indexer.add(self._places[corpus], client, name, data)

    def __del__(self) -> None:
        """End the process that waits for the next file; Ray Serve calls this before it ends a replica."""
        self._indexer.close()
