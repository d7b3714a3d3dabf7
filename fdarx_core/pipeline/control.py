"""The line between the driver and the actor that asks: progress one way, the wish to stop the other. Needs Ray."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import ray

from fdarx_core.pipeline.asking import AskProgress


@dataclass(slots=True)
class _State:
    progress: AskProgress = field(default_factory=AskProgress)
    stopping: bool = False
    stopped: bool = False
    ended_by: str = ""


class _ControlActor:
    """Lives beside the work, so that neither side waits for what the other does."""

    def __init__(self) -> None:
        self._state = _State()

    def report(self, progress: AskProgress) -> bool:
        self._state.progress = progress
        return self._state.stopping

    def stop(self) -> None:
        self._state.stopping = True

    def note_stopped(self) -> None:
        self._state.stopped = True

    def note_end(self, reason: str) -> None:
        self._state.ended_by = self._state.ended_by or reason

    def state(self) -> _State:
        return self._state


class RunControl:
    """The driver's end; the actor lasts as long as this object does. Workers get `name`: an actor that was given a
    handle could not be started again without it."""

    def __init__(self) -> None:
        self.name = f"fdarx-control-{uuid4().hex}"
        actor: Any = ray.remote(_ControlActor)
        self._actor = actor.options(num_cpus=0, name=self.name, label_selector=beside_driver()).remote()

    def progress(self) -> AskProgress | None:
        """Return the latest progress; None where the actor is gone."""
        state = self._read()
        return state.progress if state else None

    def stop(self) -> None:
        """Stop sending requests; the actor that sends them stops within a second."""
        self._actor.stop.remote()

    def await_stopped(self, bound_s: float) -> None:
        """Wait, within a bound, until what was in flight when asking stopped is stored."""
        end = time.monotonic() + bound_s
        while time.monotonic() < end:
            state = self._read()
            if state is None or state.stopped:
                return
            time.sleep(0.1)

    def ended_by(self) -> str:
        """Return what ended asking early, or "": of an error in an actor, Ray passes on no more than the text."""
        state = self._read()
        return state.ended_by if state else ""

    def _read(self) -> _State | None:
        try:
            state: _State = ray.get(self._actor.state.remote(), timeout=5)
        except ray.exceptions.RayError:
            return None
        return state


class WorkerControl:
    """A worker's end of the line, as the `Monitor` of an `AskSession`."""

    def __init__(self, name: str) -> None:
        self._actor = ray.get_actor(name)

    async def report(self, progress: AskProgress) -> bool:
        stopping: bool = await self._actor.report.remote(progress)
        return stopping

    async def note_stopped(self) -> None:
        await self._actor.note_stopped.remote()

    async def note_end(self, reason: str) -> None:
        await self._actor.note_end.remote(reason)


def beside_driver() -> dict[str, str]:
    """Return the `label_selector` of an actor of which a run has one: the machine of the driver, with which the run
    ends anyway. The death of another machine then does not take with it what is being asked."""
    return {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
