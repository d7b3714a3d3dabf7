"""Asks many requests at once: each key once, what is stored never again, within the budget of the run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from fdarx_core.llm.attempts import AsyncEndpoint, Counters
from fdarx_core.llm.baseline import Baseline
from fdarx_core.llm.failures import TRANSIENT, AskingStopped, EndpointStopped, ReplyPending
from fdarx_core.llm.response_store import ResponseStore
from fdarx_core.records import Request, Response

_FULL_SEGMENT = 256
_MIN_INTERVAL_S, _MAX_INTERVAL_S = 0.05, 10.0
_INTERVAL_SHARE = 0.005


class BudgetReached(AskingStopped):
    """The run has sent as many requests, or spent as much, as it may."""


class Asker:
    """All endpoints of a run, and its response store. It belongs to one event loop; its owner closes it.

    Args:
        endpoints: by name.
        store: keeps the responses; without one they are only returned.
        max_requests: the most requests that go to servers, retries not counted.
        max_cost: the most US dollars to spend, by the models' prices. A request in flight counts with the mean cost,
            and one in a batch with the most that it may cost.
        grace_s: seconds that requests in flight have to finish once asking stops.
        shared_fate: an endpoint that stops ends all asking; otherwise only the requests to it.
        watch: called with the counters whenever responses are flushed, and by `report`.
        sent: requests that were sent before and count towards `max_requests`.
        spent: US dollars that were spent before and count towards `max_cost`.
    """

    def __init__(
        self,
        endpoints: Mapping[str, AsyncEndpoint | Baseline],
        store: ResponseStore | None = None,
        *,
        max_requests: int | None = None,
        max_cost: float | None = None,
        grace_s: float = 30.0,
        shared_fate: bool = True,
        watch: Callable[[Mapping[str, Counters]], None] = lambda counters: None,
        sent: int = 0,
        spent: float = 0.0,
    ) -> None:
        self.sent, self._spent = sent, spent
        self._endpoints = dict(endpoints)
        self._servers = [endpoint for endpoint in self._endpoints.values() if not isinstance(endpoint, Baseline)]
        self._writer = ResponseWriter(store) if store else None
        self._max_requests, self._max_cost, self._grace_s = max_requests, max_cost, grace_s
        self._shared_fate, self._watch = shared_fate, watch
        self._in_flight: dict[str, asyncio.Task[Response]] = {}
        self._ending: asyncio.Task[None] | None = None
        self._ended_by = AskingStopped("")

    @property
    def cost(self) -> float:
        """US dollars spent so far, by the models' prices."""
        return self._spent + sum(counters.cost for counters in self.counters.values())

    @property
    def counters(self) -> dict[str, Counters]:
        """The counts of each server so far, by endpoint."""
        return {server.name: server.counters for server in self._servers}

    @property
    def batches(self) -> list[str]:
        """The state of each batch of requests at the servers."""
        return [state for server in self._servers for state in server.batches]

    def report(self) -> None:
        """Pass the counters to `watch`."""
        self._watch(self.counters)

    async def ask(self, requests: Sequence[Request]) -> list[Response]:
        """Return one response a request, in their order: from the store, or asked once for each key.

        Raises AskingStopped once asking has stopped (`stop`, BudgetReached, EndpointStopped), StorageError where
        responses cannot be stored, and ValueError for an unknown endpoint. Responses received by then are stored.
        """
        for request in requests:
            if request.endpoint not in self._endpoints:
                known = ", ".join(self._endpoints)
                raise ValueError(f"request {request.key} is for endpoint {request.endpoint}; there are {known}")
        if self._writer:
            await self._writer.open()
        try:
            responses = await self._responses({request.key: request for request in requests})
        except Exception as error:
            if isinstance(error, ReplyPending) or (isinstance(error, EndpointStopped) and not self._shared_fate):
                raise
            await self._end(error if isinstance(error, AskingStopped) else AskingStopped(str(error)))
            raise
        return [responses[request.key] for request in requests]

    async def flush(self) -> None:
        """Return when all responses so far are stored. Raises StorageError where they cannot be."""
        self.report()
        if self._writer:
            await self._writer.flush()

    async def stop(self) -> None:
        """Send no more requests, let those in flight finish, and store them. Callers of `ask` get AskingStopped."""
        await self._end(AskingStopped("asking was stopped; all responses are stored, run again to go on"))

    async def close(self) -> None:
        """Stop, then close connections. Raises StorageError where responses could not be stored."""
        try:
            await self.stop()
        finally:
            for server in self._servers:
                await server.close()
            if self._writer:
                self._writer.close()
                await asyncio.sleep(0)  # so that its task is cancelled before the loop closes

    async def _responses(self, requests: Mapping[str, Request]) -> dict[str, Response]:
        stored = await self._writer.held(list(requests)) if self._writer else set()
        # Nothing is awaited before the tasks exist: a key that another `ask` finishes meanwhile would be sent again.
        tasks = {key: self._task(request) for key, request in requests.items() if key not in stored}
        known = await self._writer.read(sorted(stored)) if self._writer and stored else {}
        tasks |= {key: self._task(requests[key]) for key in stored if key not in known}
        errors: list[BaseException] = []
        left = set(tasks.values())
        while left and all(isinstance(error, ReplyPending) for error in errors):
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_EXCEPTION)
            if any(task.cancelled() for task in done):
                raise self._ended_by.copy()
            errors += [error for task in done if (error := task.exception())]
        if errors:
            raise min(errors, key=lambda error: isinstance(error, ReplyPending))
        return known | {key: task.result() for key, task in tasks.items()}

    def _task(self, request: Request) -> asyncio.Task[Response]:
        if self._ending:
            raise self._ended_by.copy()
        if request.key not in self._in_flight:
            task = asyncio.create_task(self._answer(request))
            self._in_flight[request.key] = task
            task.add_done_callback(partial(self._forget, request.key))
        return self._in_flight[request.key]

    def _forget(self, key: str, task: asyncio.Task[Response]) -> None:
        del self._in_flight[key]
        if not task.cancelled():
            task.exception()  # retrieved, also where the caller has left

    async def _answer(self, request: Request) -> Response:
        endpoint = self._endpoints[request.endpoint]
        if isinstance(endpoint, Baseline):
            [response] = endpoint.answer([request])
        else:
            response = await endpoint.ask(request, self._admit)
        if self._writer:
            self._writer.add(response)
        return response

    def _admit(self) -> None:
        """Raise BudgetReached where no more requests may be sent."""
        if self._max_requests is not None and self.sent >= self._max_requests:
            raise BudgetReached(f"{self.sent} requests were sent, the limit of the run; raise it to go on")
        if self._max_cost is not None:
            committed = self._spent + sum(
                counters.cost + max(counters.cost * counters.in_flight / max(1, counters.done), counters.reserved)
                for counters in self.counters.values()
            )
            if committed > self._max_cost:
                raise BudgetReached(
                    f"{self.cost:.2f} US dollars are spent, requests in flight take the rest of the limit; raise it to "
                    "go on"
                )
        self.sent += 1

    async def _end(self, error: AskingStopped) -> None:
        if self._ending is None:
            self._ended_by = error
            self._ending = asyncio.create_task(self._wind_down())
        await asyncio.shield(self._ending)

    async def _wind_down(self) -> None:
        for server in self._servers:
            server.limits.stop(self._ended_by)
        if self._in_flight:
            _, late = await asyncio.wait(self._in_flight.values(), timeout=self._grace_s)
            for task in late:
                task.cancel()
        self.report()
        if self._writer:
            await self._writer.flush()


class ResponseWriter:
    """Reads and writes a store in a thread of its own, so that requests never wait for a disk or for S3.

    A segment is written once 256 responses wait, or after a two-hundredth of the time since the first request, from
    0.05 to 10 s: a killed process loses few responses, and a long run does not write a flood of files.
    """

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "responses")
        self._waiting: dict[str, Response] = {}
        self._writing: dict[str, Response] = {}
        self._full = asyncio.Event()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._opened_at = 0.0

    async def open(self) -> None:
        """Read the store's index, once, and write what it lacks. Raises StorageError."""
        if not self._opened_at:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store.compact)
            self._opened_at = self._opened_at or time.monotonic()

    async def held(self, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that have a response, written or still waiting, as it is when this returns."""
        found = await asyncio.get_running_loop().run_in_executor(self._thread, self._store.find, keys)
        # What this thread has written after the search is in `_writing` until the next turn of the loop.
        return {key for key in keys if key in found or key in self._waiting or key in self._writing}

    async def read(self, keys: Sequence[str]) -> dict[str, Response]:
        """Return the responses of keys that it holds, except those in damaged segments."""
        unwritten = {key: row for key in keys if (row := self._waiting.get(key) or self._writing.get(key))}
        stored = [key for key in keys if key not in unwritten]
        if not stored:
            return unwritten
        return unwritten | await asyncio.get_running_loop().run_in_executor(self._thread, self._store.get, stored)

    def add(self, response: Response) -> None:
        """Queue a response for writing, unless it is transient. Raises StorageError where writing has failed."""
        if response.reason.startswith(TRANSIENT):
            return
        self._waiting[response.key] = response
        self._raise_failed_write()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_periodically())
        if len(self._waiting) >= _FULL_SEGMENT:
            self._full.set()

    async def flush(self) -> None:
        """Return when all responses added so far are written. Raises StorageError where writing has failed."""
        self._raise_failed_write()
        await self._write()

    def close(self) -> None:
        """Stop writing. Call `flush` first: waiting responses are not written."""
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False)

    def _raise_failed_write(self) -> None:
        if self._task and self._task.done():
            self._task.result()

    async def _write_periodically(self) -> None:
        while self._waiting:
            interval = (time.monotonic() - self._opened_at) * _INTERVAL_SHARE
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._full.wait(), min(max(interval, _MIN_INTERVAL_S), _MAX_INTERVAL_S))
            await self._write()

    async def _write(self) -> None:
        async with self._lock:
            self._full.clear()
            self._writing, self._waiting = self._waiting, {}
            if self._writing:
                rows = list(self._writing.values())
                await asyncio.get_running_loop().run_in_executor(self._thread, self._store.put, rows)
            self._writing = {}
