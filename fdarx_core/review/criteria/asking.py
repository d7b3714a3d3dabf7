"""Asking one model about a review, each thing once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fdarx_core.llm import Asker, HttpEndpoint, ResponseStore
from fdarx_core.records import Request, Response


def ask_once(
    requests: Sequence[Request], endpoint: HttpEndpoint, store: ResponseStore, known: ResponseStore | None = None
) -> tuple[list[Response], int]:
    """One response a request, in their order, and how many went out to the model: those in neither store.

    What `known` (the run's own answers) has is copied into `store`, and so is every answer. Raises what ends asking
    (AskingStopped), and StorageError where answers can't be kept.
    """
    if known is not None:
        lacking = {request.key for request in requests} - store.index().keys()
        store.put(known.get(lacking).values())
    return asyncio.run(_ask(requests, endpoint, store))


async def _ask(requests: Sequence[Request], endpoint: HttpEndpoint, store: ResponseStore) -> tuple[list[Response], int]:
    asker = Asker({endpoint.name: endpoint}, store)
    try:
        responses = await asker.ask(requests)
        await asker.flush()
        return responses, asker.sent
    finally:
        await asker.close()
