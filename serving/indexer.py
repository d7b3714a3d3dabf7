"""Serve deployment that adds uploaded documents to indexes, in a process of its own, so that no search waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fdarx_core.pipeline.uploading import UploadedDocuments, add_upload


class IndexerDeployment:
    """Adds one file after the other."""

    def __init__(self, places: Mapping[str, str], cosine_model: str | None) -> None:
        """Take the indexes at `places`, by corpus name, and the directory of their embedding model."""
        self._places, self._cosine_model = dict(places), cosine_model
        self._turn = asyncio.Lock()

    async def add(self, corpus: str, name: str, data: bytes) -> UploadedDocuments:
        """Add the documents of a file to a corpus, as `add_upload` does."""
        async with self._turn:
            return await asyncio.to_thread(add_upload, self._places[corpus], name, data, self._cosine_model)
