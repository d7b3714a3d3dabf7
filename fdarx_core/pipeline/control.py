"""Ray actors of a run: the one that sends requests, the control actor of the driver, and those that hold resources.

Workers report their progress to the control actor, through which the driver can stop them.
"""

from __future__ import annotations

import asyncio
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any
from uuid import uuid4

import ray
from ray.util import accelerators

from fdarx_core.pipeline.asking import AskProgress, AskSession, ClientPool, PlanRow, collect_garbage_rarely, plan_part
from fdarx_core.pipeline.metrics import ask_metrics
from fdarx_core.pipeline.steps import Part, Resource, Stage, Step
from fdarx_core.storage import Location
from fdarx_core.telemetry import flush, is_enabled

_LOG = logging.getLogger(__name__)

_HEAD = "node:__internal_head__"
_ACCELERATOR = "ray.io/accelerator-type"
_ACCELERATORS = [value for name, value in vars(accelerators).items() if name.isupper()]
"""The label of a machine with GPUs, and all values that Ray gives it."""

_CONCURRENT_CALLS = 2
"""Calls that an actor has at the same time, so that it does not wait for the next one."""

_TRIES = 5
"""Maximum number of attempts at a call; it also limits the consecutive losses of actors."""

_STOP_S, _STOP_POLL_S = 30.0, 0.2
"""Maximum number of seconds in which all workers stop asking, and the seconds between checks."""


class _ResourceActor:
    """An actor that holds the object that a resource's factory returns."""

    def __init__(self, factory: Callable[..., Any], *arguments: Any) -> None:
        self._resource = factory(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the resource, and return its result."""
        return getattr(self._resource, method)(*arguments)


class ActorPool:
    """Actors of one resource, used from one event loop.

    There are as many actors as calls, at most the resource's `size`. Calls go to those that are up, while others wait
    for a machine with room. A failed actor is replaced when resources are free; the other actors repeat its calls.
    """

    def __init__(self, resource: Resource) -> None:
        name = getattr(resource.factory, "func", resource.factory).__name__
        actor: Any = ray.remote(type(name, (_ResourceActor,), {}))  # Ray's dashboard shows this name
        self._class = actor.options(num_cpus=resource.cpus, num_gpus=resource.gpus, scheduling_strategy="SPREAD")
        self._arguments, self._size = (resource.factory, *resource.arguments), resource.size
        self._up: dict[Any, int] = {}  # the calls in progress of each actor that is up
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
            for _ in range(_TRIES):
                actor = await self._take()
                try:
                    value = await actor.call.remote(method, *arguments)
                    self._losses = 0
                    return value
                except ray.exceptions.RayActorError as error:
                    lost = error
                    # An actor with two calls fails twice, but is replaced once.
                    if self._may_replace(error) and self._up.pop(actor, None) is not None:
                        _LOG.warning("an actor was lost, another takes its place: %s", str(error).splitlines()[0])
                        self._start()
                finally:
                    if actor in self._up:
                        self._up[actor] -= 1
                    self._changed.set()
            raise lost
        finally:
            self._calls -= 1

    def close(self) -> None:
        """End all actors, also those that wait for a machine. No call may be in progress."""
        for task in self._starting:
            task.cancel()
        for actor in self._up:
            _kill(actor)
        self._up.clear()

    async def _take(self) -> Any:
        """Return the actor with the fewest calls, and count one more."""
        while self._failure is None:
            actor = min(self._up, key=lambda candidate: self._up[candidate], default=None)
            if actor is not None and self._up[actor] < _CONCURRENT_CALLS:
                self._up[actor] += 1
                return actor
            self._changed.clear()
            await self._changed.wait()
        raise self._failure

    def _start(self) -> None:
        task = asyncio.ensure_future(self._bring_up())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _bring_up(self) -> None:
        """Start an actor, and another one where its machine is lost meanwhile."""
        while True:
            actor = self._class.remote(*self._arguments)
            try:
                await actor.__ray_ready__.remote()
            except ray.exceptions.RayActorError as error:
                if not self._may_replace(error):
                    return
            except asyncio.CancelledError:
                _kill(actor)
                raise
            else:
                self._up[actor] = 0
                self._changed.set()
                return

    def _may_replace(self, error: ray.exceptions.RayActorError) -> bool:
        """Count a loss; after too many of them, and where no actor can be made, all calls fail."""
        self._losses += 1
        if error.actor_init_failed or self._losses >= _TRIES * self._size * _CONCURRENT_CALLS:
            self._failure = error
            self._changed.set()
        return self._failure is None


def _kill(actor: Any) -> None:
    if ray.is_initialized():  # else the actor has ended with the session, and `ray.kill` would start another one
        ray.kill(actor)


class ControlActor:
    """A Ray actor that holds the progress of workers and the driver's request to stop, so that neither side waits."""

    def __init__(self, progress: Any) -> None:
        self._begun, self._stopping, self._ended_by = progress, False, ""
        self._progress: dict[str, Any] = {}

    def report(self, progress: Any, worker: str = "") -> bool:
        """Record the progress of a worker, by its id. Return whether the driver has asked it to stop."""
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
        reported = list(self._progress.values())
        return (reduce(operator.add, reported) if reported else self._begun), self._ended_by


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


def off_gpu_machines() -> dict[str, str]:
    """Return the `label_selector` that keeps tasks off machines with GPUs, if other workers of the cluster have CPUs.

    Ray labels the machines whose GPUs it knows; without the selector it only prefers others.
    """
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    workers = [node for node in nodes if node["Alive"] and _HEAD not in node["Resources"]]
    if not any(node["Resources"].get("CPU") and _ACCELERATOR not in node["Labels"] for node in workers):
        return {}
    return {_ACCELERATOR: f"!in({','.join(_ACCELERATORS)})"}


class AskWorker:
    """A Ray actor that sends requests. The parts that it has in progress do not wait for each other.

    Args:
        clients: The models, with the limits of this worker.
        responses: The place where responses are kept.
        resources: The resources that steps call; their actors belong to this worker.
        control: The name of the control actor.
    """

    def __init__(
        self, clients: ClientPool, responses: Location, resources: Mapping[str, Resource], control: str
    ) -> None:
        collect_garbage_rarely()
        self._clients, self._resources, self._pools = clients, resources, dict[str, ActorPool]()
        self._id = ray.get_runtime_context().get_actor_id()  # it stays the same where Ray restarts the actor
        self._control: Any = ray.get_actor(control)
        self._session = AskSession(clients, responses, self._report, self._call, ask_metrics(responses.parent.name))

    async def run(self, steps: Sequence[Step[Any]], states: Sequence[Any]) -> tuple[Sequence[Any], str]:
        """Return the states after these steps, and why asking ended early, or ""."""
        ended = await self._session.run(steps, states)
        if is_enabled():
            await asyncio.to_thread(flush)
        if ended:
            await self._control.note_end.remote(ended)
        return ([] if ended else states), ended

    async def stop_all(self) -> None:
        """Let all workers stop asking, and wait until what they have in flight is stored."""
        await self._control.stop.remote()
        for _ in range(int(_STOP_S / _STOP_POLL_S)):
            progress, _ = await self._control.state.remote()
            if progress.stopped:
                return
            await asyncio.sleep(_STOP_POLL_S)

    async def plan(self, stage: Stage[Any], part: Part) -> list[PlanRow]:
        """Return what a part would ask, without asking."""
        return await plan_part(stage, part, self._clients, self._call)

    async def close(self) -> None:
        """Stop reporting to the driver, close connections, and end the actors."""
        await self._session.close()
        for pool in self._pools.values():
            pool.close()

    async def _report(self, progress: AskProgress) -> bool:
        stopping: bool = await self._control.report.remote(progress, self._id)
        return stopping

    async def _call(self, resource: str, method: str, *arguments: Any) -> Any:
        if resource not in self._pools:
            self._pools[resource] = ActorPool(self._resources[resource])
        return await self._pools[resource].call(method, *arguments)
