"""A client of a batch API that repeats calls, and that finds a batch again whose submission nobody saw end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

from fdarx_core.llm.attempts import Counters
from fdarx_core.llm.batch_formats import BatchFormat, BatchStatus
from fdarx_core.llm.batch_records import BatchRecord
from fdarx_core.llm.batch_transport import BatchTransport
from fdarx_core.llm.failures import EndpointStopped, Failure
from fdarx_core.llm.model_config import ModelConfig

T = TypeVar("T")

GONE = (404, 405, 410, 501)
"""Statuses with which a server says that it has no such address, or no longer what was there."""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 60.0
_PATIENCE_S = 24 * 3600.0
"""Seconds for which a call is repeated that fails for now. A batch may take as long."""
_CLOCK_SKEW_S = 3600.0
_QUEUE_TRIES = 10
"""Submissions of a batch that the server refuses because too many tokens wait there already."""
_SHAPE_ERRORS = (KeyError, IndexError, TypeError, AttributeError, ValueError)


class BatchClient:
    """The batches of one model at its server.

    Calls that fail for now are repeated for a day; before the first call has succeeded, `max_tries` times. All methods
    raise Failure where that does not help, and EndpointStopped where the server no longer has a batch of the run.

    Args:
        config: the model.
        api: the format of its batch API.
        transport: the session with its server.
        counters: where repeated calls are counted as retries.
    """

    def __init__(self, config: ModelConfig, api: BatchFormat, transport: BatchTransport, counters: Counters) -> None:
        self._config, self._api, self._transport, self._counters = config, api, transport, counters
        self._url = api.url(config.base_url)
        self._ids: set[str] = set()

    async def check(self, *, once: bool = False) -> None:
        """Ask for the list of batches, which needs the right address and key and costs nothing. `once`: do not repeat
        the call if it fails for now."""
        await (self._list_one() if once else self._repeated(self._list_one))

    def note(self, record: BatchRecord) -> None:
        """Note the id of a batch, which is no other batch's then."""
        self._ids.add(record.id)

    async def submit(self, record: BatchRecord, items: list[bytes]) -> BatchStatus:
        """Submit a batch once, also where the reply to its submission is lost. `items` are cleared."""
        body = self._api.body(items)
        items.clear()

        def submit() -> Awaitable[BatchStatus]:
            return self._api.submit(self._transport, self._config.base_url, record.name, body)

        return await self._repeated(submit, lambda: self.find(record))

    async def find(self, record: BatchRecord) -> BatchStatus | None:
        """Return the state of a batch without a known id; None where the server does not have it.

        A server that keeps no names is asked for the results of batches of the same size, once they have ended.
        """
        async with aclosing(self._listed_since(record.created_at - _CLOCK_SKEW_S)) as listed:
            async for status in listed:
                if status.name == record.name if self._api.named else await self._belongs(status, record):
                    return status
        return None

    async def status(self, batch: str) -> BatchStatus:
        """Return the state of a batch."""
        try:
            return await self._repeated(lambda: self._read_status(batch))
        except Failure as failure:
            raise self._missing(batch, failure) from None

    async def ended(self, record: BatchRecord, tell: Callable[[BatchStatus], Awaitable[None]]) -> BatchStatus:
        """Return the state of a batch at its end; `tell` gets each state before it.

        A batch that the server refused because its queue is full is submitted again; its id is then another.
        """
        batch, pause = record.id, _FIRST_WAIT_S
        for _ in range(_QUEUE_TRIES):
            status = await self._polled(batch, tell)
            if not status.queue_full:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT_S)
            status = await self._resubmitted(record, status)
            await tell(status)
            batch = status.id
        return status

    async def _polled(self, batch: str, tell: Callable[[BatchStatus], Awaitable[None]] | None = None) -> BatchStatus:
        wait = _FIRST_WAIT_S
        while not (status := await self.status(batch)).ended:
            if tell:
                await tell(status)
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)
        return status

    async def results(self, status: BatchStatus) -> AsyncGenerator[tuple[str, bytes | Failure], None]:
        """Yield the custom id of each result, and the body of the reply or why there is none, replies first.

        After a lost connection it begins again, so that a result may come twice.
        """
        for url in status.results:
            failed: Failure | None = None
            while True:
                try:
                    async with aclosing(self._transport.lines(url)) as lines:
                        async for line in lines:
                            yield self._api.result(line)
                    break
                except _SHAPE_ERRORS as error:
                    raise _wrong_shape(error) from None
                except Failure as failure:
                    failed = failure
                if failed.status in GONE or failed.fatal or not failed.transient:
                    raise self._missing(status.id, failed)
                self._counters.retries += 1
                await asyncio.sleep(failed.retry_after or _FIRST_WAIT_S)

    async def _belongs(self, status: BatchStatus, record: BatchRecord) -> bool:
        """Return whether a batch is that of the record: by its size, and by its first result once it has ended."""
        if status.total != len(record.custom_ids) or status.id in self._ids:
            return False
        async with aclosing(self.results(await self._polled(status.id))) as results:
            async for custom_id, _ in results:
                return custom_id in record.custom_ids
        return False

    async def _listed_since(self, moment: float) -> AsyncGenerator[BatchStatus, None]:
        """Yield the batches of the account that were created since then, the last one first."""
        after = ""
        while True:
            page, more = await self._repeated(lambda after=after: self._read_page(after))  # type: ignore[misc]
            for status in page:
                if status.created_at < moment:
                    return
                yield status
            if not more:
                return
            after = f"&{self._api.cursor}={page[-1].id}"

    async def _list_one(self) -> None:
        await self._transport.call("GET", f"{self._url}?limit=1")

    async def _read_page(self, after: str) -> tuple[list[BatchStatus], bool]:
        reply = await self._transport.call("GET", f"{self._url}?limit=100{after}")
        page = [self._api.status(self._config.base_url, one) for one in reply["data"]]
        return page, bool(page and reply.get("has_more"))

    async def _read_status(self, batch: str) -> BatchStatus:
        reply = await self._transport.call("GET", f"{self._url}/{batch}")
        return self._api.status(self._config.base_url, reply)

    async def _resubmitted(self, record: BatchRecord, refused: BatchStatus) -> BatchStatus:
        """Submit a refused batch again, unless an earlier process has."""

        async def other() -> BatchStatus | None:
            found = await self.find(record)
            return found if found and found.id != refused.id else None

        def resubmit() -> Awaitable[BatchStatus]:
            return self._api.resubmit(self._transport, self._config.base_url, record.name, refused)

        found = await other()
        return found if found else await self._repeated(resubmit, other)

    async def _repeated(
        self, call: Callable[[], Awaitable[T]], instead: Callable[[], Awaitable[T | None]] | None = None
    ) -> T:
        """Return what a call returns, once it succeeds, or what `instead` finds after a failed one."""
        tries, wait, started = 0, _FIRST_WAIT_S, time.monotonic()
        while True:
            try:
                return await call()
            except _SHAPE_ERRORS as error:
                raise _wrong_shape(error) from None
            except Failure as failure:
                tries += 1
                in_vain = tries >= self._config.max_tries and not self._transport.reached
                final = failure.fatal or not failure.transient or failure.status in GONE
                if final or in_vain or time.monotonic() - started > _PATIENCE_S:
                    raise
                pause = max(wait, failure.retry_after or 0.0)
            self._counters.retries += 1
            await asyncio.sleep(pause)
            wait = min(2 * wait, _LONGEST_WAIT_S)
            if instead and (found := await instead()) is not None:
                return found

    def _missing(self, batch: str, failure: Failure) -> Exception:
        """Return the error for a batch that the server does not have, or the failure."""
        if failure.status not in GONE:
            return failure
        config = self._config
        return EndpointStopped(
            f"model {config.name} at {config.base_url}: the server does not have batch {batch}, or no longer its "
            "results; use the key and the base_url with which it was submitted, or delete its record in batches/ of "
            "the run: its requests are then sent and paid for again"
        )


def _wrong_shape(error: Exception) -> Failure:
    return Failure("wrong_shape", f"a reply does not belong to a batch API: {type(error).__name__}: {error}")
