"""Actors that hold something heavy, a model or an index, and the calls that go to whichever of them is free."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ray

from fdarx_core.pipeline.steps import Resource

_LOG = logging.getLogger(__name__)

_IN_HAND = 2
"""Calls that an actor has at once: the next one is there when one is done."""

_TRIES = 5
"""A call is given out so often, and so often in a row an actor may be lost, before that is an error."""

_ACTOR_CPUS = 0.1
"""CPUs that Ray reserves for an actor: a small number, so that no CPU is idle while tasks wait."""


class ResourceActor:
    """An actor that holds what a resource's factory makes."""

    def __init__(self, factory: Callable[..., Any], *arguments: Any) -> None:
        self._resource = factory(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the resource returns."""
        return getattr(self._resource, method)(*arguments)


class ActorPool:
    """Actors of one resource, used from one event loop.

    An actor that dies, with its process or its machine, leaves the pool. A new one takes its place once there is room
    for it; meanwhile the others do what it had been given.
    """

    def __init__(self, resource: Resource) -> None:
        name = getattr(resource.factory, "func", resource.factory).__name__
        actor: Any = ray.remote(type(name, (ResourceActor,), {}))  # Ray's dashboard shows this name
        self._class = actor.options(num_cpus=_ACTOR_CPUS, num_gpus=resource.gpus, scheduling_strategy="SPREAD")
        self._arguments, self._size = (resource.factory, *resource.arguments), resource.size
        self._free: asyncio.Queue[Any] = asyncio.Queue()
        self._started: set[asyncio.Task[None]] = set()
        self._lost: set[Any] = set()
        self._losses = 0
        self._failure: BaseException | None = None
        self._begun = False

    async def call(self, method: str, *arguments: Any) -> Any:
        """Return what the method returns.

        Raises what the method or the making of the actor raised, as Ray wraps it, and RayActorError for a call that
        takes down every actor that gets it.
        """
        if not self._begun:
            self._begun = True
            for _ in range(self._size):
                self._start()
        for attempt in range(1, _TRIES + 1):
            actor = await self._take()
            try:
                value = await actor.call.remote(method, *arguments)
            except ray.exceptions.RayActorError as error:
                self._replace(actor, error)
                if attempt == _TRIES:
                    raise
                continue
            except BaseException:
                self._free.put_nowait(actor)
                raise
            self._losses = 0
            self._free.put_nowait(actor)
            return value
        raise AssertionError("unreachable")

    async def _take(self) -> Any:
        while True:
            if self._failure is not None:
                raise self._failure
            actor = await self._free.get()
            if actor is None:  # a wake-up call: the pool has failed
                self._free.put_nowait(None)
            elif actor not in self._lost:
                return actor

    def _start(self) -> None:
        task = asyncio.ensure_future(self._bring_up())
        self._started.add(task)
        task.add_done_callback(self._started.discard)

    async def _bring_up(self) -> None:
        actor = self._class.remote(*self._arguments)
        try:
            await actor.__ray_ready__.remote()
        except ray.exceptions.RayActorError as error:
            if error.actor_init_failed or not self._may_lose():
                self._fail(error)
            else:
                self._start()
            return
        for _ in range(_IN_HAND):
            self._free.put_nowait(actor)

    def _replace(self, actor: Any, error: ray.exceptions.RayActorError) -> None:
        if error.actor_init_failed or not self._may_lose():
            self._fail(error)
        elif actor not in self._lost:  # an actor with two calls in hand is lost twice, and replaced once
            _LOG.warning("an actor was lost, another takes its place: %s", str(error).splitlines()[0])
            self._lost.add(actor)
            self._start()

    def _may_lose(self) -> bool:
        self._losses += 1
        return self._losses < _TRIES * self._size * _IN_HAND

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._free.put_nowait(None)


def map_pool(resource: Resource, method: str, items: Iterable[Any]) -> Iterator[Any]:
    """Return what a method of the resource makes of each item, in the order in which they are done; items are taken as
    needed. Raises as `ActorPool.call`. Must not be called in a running event loop."""
    loop = asyncio.new_event_loop()
    pending: set[asyncio.Task[Any]] = set()
    waiting = iter(items)
    try:
        pool = ActorPool(resource)
        while True:
            while len(pending) < 2 * _IN_HAND * resource.size and (item := next(waiting, _NOTHING)) is not _NOTHING:
                pending.add(loop.create_task(pool.call(method, item)))
            if not pending:
                return
            done, pending = loop.run_until_complete(asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED))
            for task in done:
                yield task.result()
    finally:
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.wait(pending))
        loop.close()


_NOTHING = object()
