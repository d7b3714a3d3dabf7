"""A line between the driver and the conversation while a build runs: figures one way, the wish to stop the other."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import ray

from fdarx_core.llm.exchange import AskingStopped


@dataclass(slots=True)
class Asked:
    """How asking goes at one moment, summed over endpoints; `cost` in USD."""

    done: int = 0
    in_flight: int = 0
    retries: int = 0
    cost: float = 0.0


@dataclass(slots=True)
class _State:
    asked: Asked = field(default_factory=Asked)
    stopping: bool = False
    stopped: bool = False
    ended_by: str = ""


class _Control:
    """Lives beside the flow, so that neither side waits for the other's work."""

    def __init__(self) -> None:
        self._state = _State()

    def report(self, asked: Asked) -> bool:
        self._state.asked = asked
        return self._state.stopping

    def asked(self) -> Asked:
        return self._state.asked

    def stop(self) -> None:
        self._state.stopping = True

    def note_stopped(self) -> None:
        self._state.stopped = True

    def stopped(self) -> bool:
        return self._state.stopped

    def note_end(self, message: str) -> None:
        self._state.ended_by = self._state.ended_by or message

    def ended_by(self) -> str:
        return self._state.ended_by


@dataclass(frozen=True, slots=True)
class Control:
    """The driver's end. Workers get the `name`: an actor that is given a handle can't be started again without it."""

    name: str
    handle: Any


def beside_driver() -> dict[str, str]:
    """The `label_selector` of an actor of which a run has one: the machine of the driver, with which the run dies.

    No other machine's death then takes with it what is being asked.
    """
    return {"ray.io/node-id": ray.get_runtime_context().get_node_id()}


def start_control() -> Control:
    """A new line, which lasts as long as the driver keeps its end."""
    name = f"fdarx-control-{uuid4().hex}"
    started: Any = ray.remote(_Control)
    return Control(name, started.options(num_cpus=0, name=name, label_selector=beside_driver()).remote())


def other_end(name: str) -> Any:
    """A worker's handle to the line of that name."""
    return ray.get_actor(name)


def asked_so_far(control: Control | None) -> Asked | None:
    """The latest figures; None where nobody is asked, or the conversation has ended."""
    try:
        return ray.get(control.handle.asked.remote(), timeout=5) if control is not None else None
    except ray.exceptions.RayError:
        return None


def stop_asking(control: Control | None) -> None:
    """Have the conversation ask nothing more; it hears of it within a second."""
    if control is not None:
        control.handle.stop.remote()


def await_stopped(control: Control, bound_s: float = 30.0) -> None:
    """Wait, within a bound, until what was in flight when asking stopped is stored."""
    try:
        end = time.monotonic() + bound_s
        while time.monotonic() < end and not ray.get(control.handle.stopped.remote(), timeout=bound_s):
            time.sleep(0.1)
    except ray.exceptions.RayError:
        return  # the conversation has ended by itself


def asking_ended_by(control: Control | None) -> AskingStopped | None:
    """What ended asking early, if that is why a flow failed: Ray passes on no more than the text of an error."""
    try:
        message = ray.get(control.handle.ended_by.remote(), timeout=5) if control is not None else ""
    except ray.exceptions.RayError:
        return None
    return AskingStopped(message) if message else None
