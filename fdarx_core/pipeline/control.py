"""A line between the driver and the conversation while a build runs: figures one way, the wish to stop the other."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

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


def start_control() -> Any:
    """A handle to a new control actor; it can be sent to workers."""
    return ray.remote(num_cpus=0)(_Control).remote()


def asked_so_far(control: Any) -> Asked | None:
    """The latest figures; None where nobody is asked, or the conversation has ended."""
    try:
        return ray.get(control.asked.remote(), timeout=5) if control is not None else None
    except ray.exceptions.RayError:
        return None


def wind_down(control: Any, bound_s: float = 30.0) -> None:
    """Have the conversation ask nothing more, and wait, within a bound, until what was in flight is stored."""
    if control is None:
        return
    try:
        ray.get(control.stop.remote(), timeout=bound_s)
        end = time.monotonic() + bound_s
        while time.monotonic() < end and not ray.get(control.stopped.remote(), timeout=bound_s):
            time.sleep(0.1)
    except ray.exceptions.RayError:
        return  # the conversation has ended by itself


def asking_ended_by(control: Any) -> AskingStopped | None:
    """What ended asking early, if that is why a flow failed: Ray passes on no more than the text of an error."""
    try:
        message = ray.get(control.ended_by.remote(), timeout=5) if control is not None else ""
    except ray.exceptions.RayError:
        return None
    return AskingStopped(message) if message else None
