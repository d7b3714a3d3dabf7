"""The batches of a run: their records, and a client that repeats calls and finds a batch again by its record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import orjson

from fdarx_core.llm.attempts import Counters
from fdarx_core.llm.batch_formats import BatchFormat, BatchStatus
from fdarx_core.llm.failures import SHAPE_ERRORS, EndpointStopped, Failure, decode_json
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.transport import HttpTransport
from fdarx_core.llm.wire_formats import ServerFeatures
from fdarx_core.storage import Location, StorageError

T = TypeVar("T")

GONE = (404, 405, 410, 501)
"""Statuses with which a server says that it has no such address, or no longer what was there."""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 60.0
_PATIENCE_S = 24 * 3600.0
"""Seconds for which a call is repeated that fails for now. A batch may take as long."""
_CLOCK_SKEW_S = 3600.0
_QUEUE_TRIES = 10
"""Submissions of a batch that the server refuses because too many tokens wait there already."""


@dataclass(slots=True)
class BatchRecord:
    """One batch. It is written before the batch is submitted, without an `id`, and again once the server gave one.

    Args:
        model: the name of the model in the run.
        base_url: the address of the server.
        custom_ids: the ids of its requests, each with the key of a request in it.
        features: what requests of each task use of the server, as fields of `ServerFeatures`.
        name: identifies the batch before it has an id.
        created_at: seconds since the epoch.
        results: how many requests ended in which way; empty until the results are read.
    """

    model: str
    base_url: str
    custom_ids: list[str] = field(default_factory=list)
    features: dict[str, dict[str, Any]] = field(default_factory=dict)
    name: str = ""
    created_at: float = 0.0
    id: str = ""
    results: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.created_at = self.created_at or time.time()
        self.name = self.name or f"{int(self.created_at * 1000):013d}-{uuid4().hex[:12]}"

    def learned(self) -> dict[str, ServerFeatures]:
        """Return the features by task."""
        return {task: ServerFeatures(**fields) for task, fields in self.features.items()}


class BatchRecords:
    """The records of a run's batches, `RUN/batches/NAME.json`. They hold no texts and no key."""

    def __init__(self, root: Location) -> None:
        self._root = root

    def load(self) -> list[BatchRecord]:
        """Return all records in the order of their creation. Raises StorageError for one that is damaged."""
        records = []
        for file in self._root.list():
            if file.suffix == ".json":
                try:
                    records.append(BatchRecord(**orjson.loads(file.read_bytes())))
                except (orjson.JSONDecodeError, TypeError) as error:
                    raise StorageError(
                        f"{file} is damaged ({error}); delete it, and the requests of that batch are sent and paid for "
                        "again"
                    ) from error
        return records

    def write(self, record: BatchRecord) -> None:
        """Write a record. Raises StorageError."""
        self._file(record).write_bytes(orjson.dumps(asdict(record)))

    def delete(self, record: BatchRecord) -> None:
        """Delete the record of a batch that was never submitted. Raises StorageError."""
        self._file(record).delete()

    def uncollected(self) -> dict[str, int]:
        """Return how many requests are in batches whose results were not read, by batch."""
        return {record.id or record.name: len(record.custom_ids) for record in self.load() if not record.results}

    def _file(self, record: BatchRecord) -> Location:
        return self._root / f"{record.name}.json"


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

    def __init__(self, config: ModelConfig, api: BatchFormat, transport: HttpTransport, counters: Counters) -> None:
        self._config, self._api, self._transport, self._counters = config, api, transport, counters
        self._url = api.url(config.base_url)
        self._ids: set[str] = set()

    async def check(self, *, once: bool = False) -> None:
        """Ask for the list of batches, which needs the right address and key and costs nothing. `once`: do not repeat
        the call if it fails for now."""
        call = partial(self._transport.call, "GET", f"{self._url}?limit=1")
        await (call() if once else self._repeated(call))

    def note(self, record: BatchRecord) -> None:
        """Note the id of a batch, which is no other batch's then."""
        self._ids.add(record.id)

    async def submit(self, record: BatchRecord, items: list[bytes]) -> BatchStatus:
        """Submit a batch once, also where the reply to its submission is lost. `items` are cleared."""
        body = self._api.body(items)
        items.clear()
        call = partial(self._api.submit, self._transport, self._config.base_url, record.name, body)
        return await self._repeated(call, partial(self.find, record))

    async def find(self, record: BatchRecord, *, refused: str = "") -> BatchStatus | None:
        """Return the state of a batch without a known id; None where the server does not have it.

        A server that keeps no names is asked for the results of batches of the same size, once they have ended. A batch
        that was submitted again is found by its last submission, if that is not the one of the id `refused`.
        """
        after, more = "", True
        while more:  # the last batch comes first
            page, more = await self._repeated(partial(self._read_page, after))
            for status in page:
                if status.created_at < record.created_at - _CLOCK_SKEW_S:
                    return None
                if status.name == record.name if self._api.named else await self._belongs(status, record):
                    return None if status.id == refused else status
                after = f"&{self._api.cursor}={status.id}"
        return None

    async def ended(self, record: BatchRecord, tell: Callable[[BatchStatus], Awaitable[None]]) -> BatchStatus:
        """Return the state of a batch at its end; `tell` gets each state before it.

        A batch that the server refused because its queue is full is submitted again, unless an earlier process has; its
        id is then another.
        """
        status, waits = await self._polled(record.id, tell), _waits()
        for _ in range(_QUEUE_TRIES):
            if not status.queue_full:
                break
            await asyncio.sleep(next(waits))
            find = partial(self.find, record, refused=status.id)
            submit = partial(
                self._api.submit, self._transport, self._config.base_url, record.name, b"", status.input_file
            )
            found = await find()
            submitted = found if found else await self._repeated(submit, find)
            await tell(submitted)
            status = await self._polled(submitted.id, tell)
        return status

    async def _polled(self, batch: str, tell: Callable[[BatchStatus], Awaitable[None]] | None = None) -> BatchStatus:
        async def read() -> BatchStatus:
            reply = await self._transport.call("GET", f"{self._url}/{batch}")
            return self._api.status(self._config.base_url, reply)

        waits = _waits()
        while True:
            try:
                status = await self._repeated(read)
            except Failure as failure:
                raise self._missing(batch, failure) from None
            if status.ended:
                return status
            if tell:
                await tell(status)
            await asyncio.sleep(next(waits))

    async def results(self, status: BatchStatus) -> AsyncGenerator[tuple[str, bytes | Failure], None]:
        """Yield the custom id of each result, and the body of the reply or why there is none, replies first.

        After a lost connection it begins again, so that a result may come twice.
        """
        for url in status.results:
            while True:
                try:
                    async with aclosing(self._transport.lines(url)) as lines:
                        async for line in lines:
                            yield self._api.result(decode_json(line))
                    break
                except (*SHAPE_ERRORS, ValueError) as error:
                    raise _wrong_shape(error) from None
                except Failure as failure:
                    if _is_final(failure):
                        raise self._missing(status.id, failure) from None
                    pause = failure.retry_after or _FIRST_WAIT_S
                self._counters.retries += 1
                await asyncio.sleep(pause)

    async def _belongs(self, status: BatchStatus, record: BatchRecord) -> bool:
        """Return whether a batch is that of the record: by its size, and by its first result once it has ended."""
        if status.total != len(record.custom_ids) or status.id in self._ids:
            return False
        async with aclosing(self.results(await self._polled(status.id))) as results:
            async for custom_id, _ in results:
                return custom_id in record.custom_ids
        return False

    async def _read_page(self, after: str) -> tuple[list[BatchStatus], bool]:
        reply = await self._transport.call("GET", f"{self._url}?limit=100{after}")
        page = [self._api.status(self._config.base_url, batch) for batch in reply["data"]]
        return page, bool(page and reply.get("has_more"))

    async def _repeated(
        self, call: Callable[[], Awaitable[T]], instead: Callable[[], Awaitable[T | None]] | None = None
    ) -> T:
        """Return what a call returns, once it succeeds, or what `instead` finds after a failed one."""
        tries, waits, started = 0, _waits(), time.monotonic()
        while True:
            try:
                return await call()
            except (*SHAPE_ERRORS, ValueError) as error:
                raise _wrong_shape(error) from None
            except Failure as failure:
                tries += 1
                in_vain = tries >= self._config.max_tries and not self._transport.reached
                if _is_final(failure) or in_vain or time.monotonic() - started > _PATIENCE_S:
                    raise
                pause = max(next(waits), failure.retry_after or 0.0)
            self._counters.retries += 1
            await asyncio.sleep(pause)
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


def _is_final(failure: Failure) -> bool:
    """Return whether it is of no use to repeat the call."""
    return failure.fatal or not failure.transient or failure.status in GONE


def _waits() -> Iterator[float]:
    """Yield the seconds to wait before each further call."""
    wait = _FIRST_WAIT_S
    while True:
        yield wait
        wait = min(2 * wait, _LONGEST_WAIT_S)
