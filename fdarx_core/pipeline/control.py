"""Ray actors of a run: the one that sends requests, the control actor of the driver, and those that hold resources.

Workers report their progress to the control actor, through which the driver can stop them.
"""

from __future__ import annotations

import asyncio
import logging
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any
from uuid import uuid4

import ray

from fdarx_core.pipeline.ask_peers import AskPeers, worker_name
from fdarx_core.pipeline.asking import (
    AskProgress,
    AskSession,
    ClientPool,
    PlanRow,
    collect_garbage_rarely,
    plan_part,
)
from fdarx_core.pipeline.metrics import ask_metrics
from fdarx_core.pipeline.steps import Part, Resource, Stage, Step
from fdarx_core.records import Request, Response
from fdarx_core.storage import Location
from fdarx_core.telemetry import flush, is_enabled

_LOG = logging.getLogger(__name__)

_CONCURRENT_CALLS = 2
"""Calls that an actor has at the same time, so that it does not wait for the next one."""

_TRIES = 5
"""Maximum number of attempts at a call; it also limits the consecutive losses of actors."""

_IDLE_S = 60.0
"""Seconds after which an actor without calls is ended."""

_CLOSE_S = 5.0
"""Maximum number of seconds in which actors that are ended close their resources."""


class ResourceActor:
    """An actor that holds the object that a resource's factory returns."""

    def __init__(self, factory: Callable[..., Any], *arguments: Any) -> None:
        self._resource = factory(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the resource, and return its result."""
        return getattr(self._resource, method)(*arguments)


@dataclass(slots=True, eq=False)
class _PoolActor:
    """An actor that is up, its calls in progress, and the timer that ends it once it has had none for a while."""

    handle: Any
    calls: int = 0
    last_used: float = 0.0
    timer: asyncio.TimerHandle | None = None


class ActorPool:
    """Actors of one resource, used from one event loop.

    There are as many actors as calls, at most the resource's `size`. Calls go to those that are up, while others wait
    for a machine with room. An actor that has no call for a while is ended, so that its machine can be removed; one
    stays. A failed actor is replaced when resources are free; the other actors repeat its calls. `idle_s` is that
    while, in seconds. Where the class of the resource has a method `close`, actors call it before they are ended.
    """

    def __init__(self, resource: Resource, *, idle_s: float = _IDLE_S) -> None:
        name = getattr(resource.factory, "func", resource.factory).__name__
        actor: Any = ray.remote(type(name, (ResourceActor,), {}))  # Ray's dashboard shows this name
        self._class = actor.options(num_cpus=resource.cpus, num_gpus=resource.gpus, scheduling_strategy="SPREAD")
        self._arguments, self._size = (resource.factory, *resource.arguments), resource.size
        self._idle_s, self._closes = idle_s, hasattr(resource.factory, "close")
        self._up: list[_PoolActor] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._calls = self._losses = 0
        self._failure: BaseException | None = None

    async def call(self, method: str, *arguments: Any) -> Any:
        """Return the result of the method.

        Raises the exception of the method or of the actor's construction, as wrapped by Ray, and RayActorError for a
        call with which every actor fails.
        """
        self._calls += 1
        try:
            while len(self._up) + len(self._starting) < min(self._size, self._calls):
                self._start()
            return await self._try(method, *arguments)
        finally:
            self._calls -= 1

    def close(self) -> None:
        """End all actors, also those that wait for a machine. No call may be in progress."""
        for task in self._starting:
            task.cancel()
        self._end(self._up)
        self._up.clear()

    async def _try(self, method: str, *arguments: Any) -> Any:
        for attempt in range(1, _TRIES + 1):
            actor = await self._take()
            try:
                value = await actor.handle.call.remote(method, *arguments)
            except ray.exceptions.RayActorError as error:
                self._replace(actor, error)
                if attempt == _TRIES:
                    raise
                continue
            finally:
                self._release(actor)
            self._losses = 0
            return value
        raise AssertionError("unreachable")

    async def _take(self) -> _PoolActor:
        """Return the actor with the fewest calls; of equal ones the one used last, so that others become idle."""
        while True:
            if self._failure is not None:
                raise self._failure
            free = [actor for actor in self._up if actor.calls < _CONCURRENT_CALLS]
            if free:
                actor = min(free, key=lambda one: (one.calls, -one.last_used))
                actor.calls += 1
                if actor.timer is not None:
                    actor.timer.cancel()
                return actor
            self._changed.clear()
            await self._changed.wait()

    def _release(self, actor: _PoolActor) -> None:
        actor.calls -= 1
        loop = asyncio.get_running_loop()
        actor.last_used = loop.time()
        if not actor.calls and actor in self._up:
            actor.timer = loop.call_later(self._idle_s, self._end_idle, actor)
        self._changed.set()

    def _end_idle(self, actor: _PoolActor) -> None:
        if len(self._up) > 1:
            self._up.remove(actor)
            self._end([actor])
        else:
            actor.timer = asyncio.get_running_loop().call_later(self._idle_s, self._end_idle, actor)

    def _end(self, actors: Sequence[_PoolActor]) -> None:
        if self._closes and actors and ray.is_initialized():
            closing = [actor.handle.call.remote("close") for actor in actors]
            ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
        for actor in actors:
            if actor.timer is not None:
                actor.timer.cancel()
            _kill(actor.handle)

    def _start(self) -> None:
        task = asyncio.ensure_future(self._bring_up())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _bring_up(self) -> None:
        """Start an actor, and another one where its machine is lost meanwhile."""
        while True:
            handle = self._class.remote(*self._arguments)
            try:
                await handle.__ray_ready__.remote()
            except ray.exceptions.RayActorError as error:
                if error.actor_init_failed or not self._may_lose():
                    self._fail(error)
                    return
            except asyncio.CancelledError:
                _kill(handle)
                raise
            else:
                self._up.append(_PoolActor(handle, last_used=asyncio.get_running_loop().time()))
                self._changed.set()
                return

    def _replace(self, actor: _PoolActor, error: ray.exceptions.RayActorError) -> None:
        if error.actor_init_failed or not self._may_lose():
            self._fail(error)
        elif actor in self._up:  # an actor with two calls fails twice, but is replaced once
            _LOG.warning("an actor was lost, another takes its place: %s", str(error).splitlines()[0])
            self._up.remove(actor)
            self._start()

    def _may_lose(self) -> bool:
        self._losses += 1
        return self._losses < _TRIES * self._size * _CONCURRENT_CALLS

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._changed.set()


def _kill(actor: Any) -> None:
    if ray.is_initialized():  # else the actor has ended with the session, and `ray.kill` would start another one
        ray.kill(actor)


def map_pool(resource: Resource, method: str, items: Iterable[Any]) -> Iterator[Any]:
    """Yield the result of a method of the resource for each item, in the order of completion.

    `items` is consumed as needed. Raises as `ActorPool.call`. Must not be called in a running event loop.
    """
    loop = asyncio.new_event_loop()
    pending: set[asyncio.Task[Any]] = set()
    waiting = iter(items)
    pool = ActorPool(resource)
    try:
        while True:
            while (
                len(pending) < 2 * _CONCURRENT_CALLS * resource.size
                and (item := next(waiting, _NOTHING)) is not _NOTHING
            ):
                pending.add(loop.create_task(pool.call(method, item)))
            if not pending:
                return
            done, pending = loop.run_until_complete(asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED))
            for task in done:
                yield task.result()
    finally:
        for task in pending:
            task.cancel()
        pool.close()
        if left := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(left))
        loop.close()


_NOTHING = object()


class ControlActor:
    """A Ray actor that holds the progress of workers and the driver's request to stop, so that neither side waits."""

    def __init__(self, progress: Any) -> None:
        self._progress, self._stopping, self._ended_by = {0: progress}, False, ""

    def report(self, progress: Any, worker: int = 0) -> bool:
        """Record the progress of a worker, by its number. Return whether the driver has asked it to stop."""
        self._progress[worker] = progress
        return self._stopping

    def stop(self) -> None:
        """Ask workers to stop at their next report."""
        self._stopping = True

    def note_end(self, reason: str) -> None:
        """Record why the work ended early."""
        self._ended_by = self._ended_by or reason

    def state(self) -> tuple[Any, str]:
        """Return the latest progress, the sum over workers, and why the work ended early, "" if it did not."""
        return reduce(operator.add, self._progress.values()), self._ended_by


def start_control(progress: Any) -> tuple[str, Any]:
    """Start a control actor, which lives as long as its handle.

    Workers get its name, because an actor that was created with a handle cannot be restarted without it.

    Args:
        progress: The progress that it returns before a worker has reported.

    Returns:
        Its name and the handle.
    """
    name = f"fdarx-control-{uuid4().hex}"
    actor: Any = ray.remote(ControlActor)
    return name, actor.options(num_cpus=0, name=name, label_selector=on_driver_node()).remote(progress)


def on_driver_node() -> dict[str, str]:
    """Return the `label_selector` that places an actor on the driver's node.

    Single actors of a run are placed there, because the run ends with the driver anyway; the failure of another node
    then does not interrupt requests.
    """
    return {"ray.io/node-id": ray.get_runtime_context().get_node_id()}


class AskWorker:
    """A Ray actor that sends requests, by default the only one of a run: all share its limits and its response store.

    The parts that it has in progress do not wait for each other. The first worker owns the actors that hold resources.

    Args:
        clients, responses, resources: what is asked, where responses are kept, and what steps call.
        control: the name of the control actor.
        number: the number of the worker.
        shared: whether there are several, which share limits and requests through the actor of `shared_name`.
    """

    def __init__(
        self,
        clients: ClientPool,
        responses: Location,
        resources: Mapping[str, Resource],
        control: str,
        number: int = 0,
        shared: bool = False,
    ) -> None:
        collect_garbage_rarely()
        self._clients, self._resources, self._pools = clients, resources, dict[str, ActorPool]()
        self._number, self._control_name = number, control
        self._control: Any = ray.get_actor(control)
        watch = ask_metrics(responses.parent.name)
        if not shared:
            self._session = AskSession(clients, responses, self._report, self._call, watch)
            return
        peers = AskPeers(control, number)
        first = clients if number == 0 else replace(clients, sent=0, spent=0.0)  # what was spent is counted once
        self._session = AskSession(first, responses, self._report, self._call, watch, peers.leases, peers.ask)

    async def run(self, steps: Sequence[Step[Any]], states: Sequence[Any]) -> tuple[Sequence[Any], str]:
        """Return the states after these steps, and why asking ended early, or ""."""
        ended = await self._session.run(steps, states)
        if is_enabled():
            await asyncio.to_thread(flush)
        if ended:
            await self._control.note_end.remote(ended)
        return ([] if ended else states), ended

    async def answer(self, requests: Sequence[Request]) -> tuple[list[Response], str]:
        """Return the responses to requests of another worker, and why asking ended early, or ""."""
        return await self._session.answer(requests)

    async def call(self, resource: str, method: str, *arguments: Any) -> Any:
        """Call a method of a resource for another worker."""
        return await self._call(resource, method, *arguments)

    async def plan(self, stage: Stage[Any], part: Part) -> list[PlanRow]:
        """Return what a part would ask, without asking."""
        return await plan_part(stage, part, self._clients, self._call)

    async def close(self) -> None:
        """Stop reporting to the driver, close connections, and end the actors."""
        await self._session.close()
        for pool in self._pools.values():
            pool.close()

    async def _report(self, progress: AskProgress) -> bool:
        stopping: bool = await self._control.report.remote(progress, self._number)
        return stopping

    async def _call(self, resource: str, method: str, *arguments: Any) -> Any:
        if self._number:
            return await ray.get_actor(worker_name(self._control_name, 0)).call.remote(resource, method, *arguments)
        if resource not in self._pools:
            self._pools[resource] = ActorPool(self._resources[resource])
        return await self._pools[resource].call(method, *arguments)
