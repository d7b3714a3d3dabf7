"""Asking many things at once, each once, and keeping what was answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from fdarx_core.llm.endpoints import Baseline
from fdarx_core.llm.exchange import AskingStopped, EndpointStopped
from fdarx_core.llm.segments import SegmentWriter
from fdarx_core.llm.server import Server
from fdarx_core.llm.store import ResponseStore
from fdarx_core.llm.tries import Counters
from fdarx_core.records import Request, Response


class BudgetReached(AskingStopped):
    """As many requests went out, or as much was spent, as the run may."""


class Asker:
    """All endpoints of a run, and its store. Belongs to one event loop; whoever makes it closes it.

    `max_requests` counts requests that go to a server, not their retries. `max_cost` is in US dollars by the models'
    prices; what is in flight counts with the mean cost of a request. `grace_s`: seconds that requests in flight have to
    finish once asking stops. `shared_fate`: an endpoint that stops ends all asking; else only what is asked of it.
    `watch` is called with the counters whenever what was answered is stored, and by `tell`.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Server | Baseline],
        store: ResponseStore | None = None,
        *,
        max_requests: int | None = None,
        max_cost: float | None = None,
        grace_s: float = 30.0,
        shared_fate: bool = True,
        watch: Callable[[Mapping[str, Counters]], None] = lambda counters: None,
    ) -> None:
        self.sent = 0
        self._endpoints = dict(endpoints)
        self._servers = [one for one in self._endpoints.values() if not isinstance(one, Baseline)]
        self._segments = SegmentWriter(store) if store else None
        self._max_requests, self._max_cost, self._grace_s = max_requests, max_cost, grace_s
        self._shared_fate, self._watch = shared_fate, watch
        self._in_flight: dict[str, asyncio.Task[Response]] = {}
        self._ending: asyncio.Task[None] | None = None
        self._ended_by = AskingStopped("")

    @property
    def cost(self) -> float:
        """US dollars spent so far, by the models' prices."""
        return sum(counters.cost for counters in self.counters.values())

    @property
    def counters(self) -> dict[str, Counters]:
        """What each server has been asked so far, by endpoint."""
        return {server.name: server.counters for server in self._servers}

    def tell(self) -> None:
        """Pass the counters on to whoever watches."""
        self._watch(self.counters)

    async def ask(self, requests: Sequence[Request]) -> list[Response]:
        """One response a request, in the order of the requests: read from the store, or asked once for each key.

        Raises AskingStopped once asking has stopped (`stop`, BudgetReached, EndpointStopped), StorageError where
        responses can't be kept, ValueError for an endpoint that is not here; by then all that was answered is stored.
        """
        for request in requests:
            if request.endpoint not in self._endpoints:
                known = ", ".join(self._endpoints)
                raise ValueError(f"request {request.key} is for endpoint {request.endpoint}; there are {known}")
        if self._segments:
            await self._segments.open()
        try:
            answers = await self._answers({request.key: request for request in requests})
        except Exception as error:
            if isinstance(error, EndpointStopped) and not self._shared_fate:
                raise
            await self._end(error if isinstance(error, AskingStopped) else AskingStopped(str(error)))
            raise
        return [answers[request.key] for request in requests]

    async def flush(self) -> None:
        """Returns when all that was answered is stored. Raises StorageError where it can't be."""
        self.tell()
        if self._segments:
            await self._segments.flush()

    async def stop(self) -> None:
        """Ask nothing more, let what is in flight finish, store it. Whoever still asks gets AskingStopped."""
        await self._end(AskingStopped("asking was stopped; what was answered is stored, run again to go on"))

    async def close(self) -> None:
        """Stops, then closes connections. Raises StorageError where responses could not be kept."""
        try:
            await self.stop()
        finally:
            for server in self._servers:
                await server.close()
            if self._segments:
                self._segments.close()
                await asyncio.sleep(0)  # so that its task hears of it before the loop goes

    async def _answers(self, requests: Mapping[str, Request]) -> dict[str, Response]:
        # nothing is awaited before the tasks stand: a key that another ask finishes meanwhile would be asked again
        stored = {key for key in requests if self._segments and self._segments.holds(key)}
        tasks = {key: self._task(request) for key, request in requests.items() if key not in stored}
        known = await self._segments.read(sorted(stored)) if self._segments and stored else {}
        tasks |= {key: self._task(requests[key]) for key in stored if key not in known}
        if tasks:
            await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
        if any(task.done() and task.cancelled() for task in tasks.values()):
            raise self._ended_by.copy()
        for task in tasks.values():
            if task.done() and (error := task.exception()):
                raise error
        return known | {key: task.result() for key, task in tasks.items()}

    def _task(self, request: Request) -> asyncio.Task[Response]:
        if self._ending:
            raise self._ended_by.copy()
        if request.key not in self._in_flight:
            task = asyncio.create_task(self._answer(request))
            self._in_flight[request.key] = task
            task.add_done_callback(lambda done: self._landed(request.key, done))
        return self._in_flight[request.key]

    def _landed(self, key: str, task: asyncio.Task[Response]) -> None:
        del self._in_flight[key]
        if not task.cancelled():
            task.exception()  # seen, even where whoever asked has left

    async def _answer(self, request: Request) -> Response:
        endpoint = self._endpoints[request.endpoint]
        if isinstance(endpoint, Baseline):
            [response] = endpoint.answer([request])
        else:
            response = await endpoint.ask(request, self._admit)
        if self._segments:
            self._segments.add(response)
        return response

    def _admit(self) -> None:
        """Raises BudgetReached where one more request may not go out."""
        if self._max_requests is not None and self.sent >= self._max_requests:
            raise BudgetReached(f"{self.sent} requests have gone out, as many as the run may; raise the limit to go on")
        if self._max_cost is not None and self._committed() > self._max_cost:
            raise BudgetReached(
                f"{self.cost:.2f} US dollars are spent, and what is in flight takes all that the run may spend; raise "
                "the limit to go on"
            )
        self.sent += 1

    def _committed(self) -> float:
        """US dollars spent, and likely to be spent by what is in flight."""
        return sum(one.cost * (1 + one.in_flight / max(1, one.done)) for one in self.counters.values())

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
        self.tell()
        if self._segments:
            await self._segments.flush()
