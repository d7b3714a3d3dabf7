"""Several Ray actors that ask for one run: they share its limits, and no request is sent by two of them."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ray

from fdarx_core.llm import Asker, AskingStopped, AsyncEndpoint, ModelConfig
from fdarx_core.llm.leased_limits import LimitLeases
from fdarx_core.llm.limit_pool import LimitPool, WorkerLease, WorkerReport
from fdarx_core.records import Request, Response

_CLAIM_S = 0.005
"""Seconds in which the requests of several labels are claimed together."""

_WORKER_REQUESTS_S = 2000.0
"""Requests a second that are worth a worker: about two thirds of what `benchmarks.asking` measures for a core."""
_LEAST_REPLY_S = 1.0
"""A short time for a reply of a language model, from which the most requests a second of a model are estimated."""


def worker_name(control: str, number: int) -> str:
    """Return the name of a worker that asks, from that of the control actor."""
    return f"{control}-ask-{number}"


def shared_name(control: str) -> str:
    """Return the name of the actor with what the workers share."""
    return f"{control}-shared"


def workers_needed(models: Iterable[ModelConfig], cpus: int) -> int:
    """Return how many workers the limits of models are worth, at most one for each two CPUs."""
    rates = (
        min(model.max_in_flight / _LEAST_REPLY_S, (model.requests_per_minute or math.inf) / 60) for model in models
    )
    return max(1, min(math.ceil(sum(rates) / _WORKER_REQUESTS_S), cpus // 2))


class SharedActor:
    """A Ray actor with what the workers that ask share: the pool of limits, and who sends which request."""

    def __init__(self, max_requests: int | None, max_cost: float | None, sent: int, spent: float) -> None:
        self._pool = LimitPool(max_requests, max_cost, sent, spent)
        self._owners: dict[str, int] = {}

    def exchange(self, report: WorkerReport) -> WorkerLease:
        """Take the report of a worker, and return its next lease."""
        return self._pool.exchange(report, time.monotonic())

    def claim(self, worker: int, keys: Sequence[str]) -> list[int]:
        """Return for each key of a request the worker that sends it: the first that claims it."""
        return [self._owners.setdefault(key, worker) for key in keys]


class AskPeers:
    """What one of several workers has of the others. It belongs to one event loop."""

    def __init__(self, control: str, number: int) -> None:
        self._control, self._number = control, number
        self._shared: Any = ray.get_actor(shared_name(control))
        self._unclaimed: dict[str, asyncio.Future[int]] = {}
        self._claiming: asyncio.Task[None] | None = None

    def leases(self, servers: Mapping[str, AsyncEndpoint]) -> LimitLeases:
        """Return the limits of servers as this worker has them."""
        return LimitLeases(self._number, servers, self._exchange)

    async def ask(self, asker: Asker, requests: Sequence[Request]) -> list[Response]:
        """Return the responses to requests in their order; those that another worker has claimed come from it.

        Raises as `Asker.ask`.
        """
        owners = await asyncio.gather(*(self._owner(request.key) for request in requests))
        shares: dict[int, list[Request]] = defaultdict(list)
        for owner, request in zip(owners, requests, strict=True):
            shares[owner].append(request)
        asked = (self._ask_of(owner, asker, share) for owner, share in shares.items())
        responses = {response.key: response for share in await asyncio.gather(*asked) for response in share}
        return [responses[request.key] for request in requests]

    async def _ask_of(self, owner: int, asker: Asker, requests: Sequence[Request]) -> list[Response]:
        if owner == self._number:
            return await asker.ask(requests)
        responses: list[Response]
        responses, ended = await ray.get_actor(worker_name(self._control, owner)).answer.remote(requests)
        if ended:
            raise AskingStopped(ended)
        return responses

    async def _exchange(self, report: WorkerReport) -> WorkerLease:
        lease: WorkerLease = await self._shared.exchange.remote(report)
        return lease

    def _owner(self, key: str) -> asyncio.Future[int]:
        if key not in self._unclaimed:
            self._unclaimed[key] = asyncio.get_running_loop().create_future()
            if self._claiming is None or self._claiming.done():
                self._claiming = asyncio.create_task(self._claim())
        return self._unclaimed[key]

    async def _claim(self) -> None:
        await asyncio.sleep(_CLAIM_S)
        while self._unclaimed:
            claimed, self._unclaimed = self._unclaimed, {}
            try:
                owners = await self._shared.claim.remote(self._number, list(claimed))
            except Exception as error:
                for waiting in claimed.values():
                    waiting.set_exception(error)
                continue
            for waiting, owner in zip(claimed.values(), owners, strict=True):
                waiting.set_result(owner)
