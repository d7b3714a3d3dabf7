"""The actor that asks, and the line between it and the driver: progress one way, the wish to stop the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import ray

from fdarx_core.pipeline.actor_pool import ActorPool
from fdarx_core.pipeline.asking import AskProgress, AskSession, ClientPool, plan_part
from fdarx_core.pipeline.metrics import ask_metrics
from fdarx_core.pipeline.planning import PlanRow
from fdarx_core.pipeline.steps import Part, Resource, Stage, Step
from fdarx_core.storage import Location


class ControlActor:
    """A Ray actor beside the work, so that neither the driver nor a worker waits for what the other does."""

    def __init__(self, progress: Any) -> None:
        self._progress, self._stopping, self._ended_by = progress, False, ""

    def report(self, progress: Any) -> bool:
        """Note a worker's progress; return whether the driver wants it to stop."""
        self._progress = progress
        return self._stopping

    def stop(self) -> None:
        """Have workers stop, once they report next."""
        self._stopping = True

    def note_end(self, reason: str) -> None:
        """Note what ended the work early."""
        self._ended_by = self._ended_by or reason

    def state(self) -> tuple[Any, str]:
        """Return the latest progress, and what ended the work early, or ""."""
        return self._progress, self._ended_by


def start_control(progress: Any) -> tuple[str, Any]:
    """Start a control actor; it lasts as long as the handle.

    Workers get the name: an actor that was given a handle could not be started again without it.

    Args:
        progress: What it says of progress before a worker has reported.

    Returns:
        Its name and the handle.
    """
    name = f"fdarx-control-{uuid4().hex}"
    actor: Any = ray.remote(ControlActor)
    return name, actor.options(num_cpus=0, name=name, label_selector=beside_driver()).remote(progress)


def beside_driver() -> dict[str, str]:
    """Return the `label_selector` of an actor of which a run has one: the machine of the driver, with which the run
    ends anyway. The death of another machine then does not take with it what is being asked."""
    return {"ray.io/node-id": ray.get_runtime_context().get_node_id()}


class AskWorker:
    """A Ray actor, of which a run has one: limits and the store are shared because they are its own.

    The parts that it has in progress don't wait for each other. It owns the actors that hold resources. `control` is
    the name of the control actor.
    """

    def __init__(
        self, clients: ClientPool, responses: Location, resources: Mapping[str, Resource], control: str
    ) -> None:
        self._clients, self._resources, self._pools = clients, resources, dict[str, ActorPool]()
        self._control: Any = ray.get_actor(control)
        watch = ask_metrics(responses.parent.name)
        self._session = AskSession(clients, responses, self._report, self._call, watch)

    async def run(self, steps: Sequence[Step[Any]], states: Sequence[Any]) -> tuple[Sequence[Any], str]:
        """Return the states after these steps, and why asking ended early, or ""."""
        ended = await self._session.run(steps, states)
        if ended:
            await self._control.note_end.remote(ended)
        return ([] if ended else states), ended

    async def plan(self, stage: Stage[Any], part: Part) -> list[PlanRow]:
        """Return what a part would ask, without asking."""
        return await plan_part(stage, part, self._clients, self._call)

    async def close(self) -> None:
        """Stop reporting to the driver, and close connections."""
        await self._session.close()

    async def _report(self, progress: AskProgress) -> bool:
        stopping: bool = await self._control.report.remote(progress)
        return stopping

    async def _call(self, resource: str, method: str, *arguments: Any) -> Any:
        if resource not in self._pools:
            self._pools[resource] = ActorPool(self._resources[resource])
        return await self._pools[resource].call(method, *arguments)
