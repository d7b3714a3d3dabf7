"""Models side by side: each has a lane of its own through the parts, and none waits for another."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.control import Control, beside_driver
from fdarx_core.pipeline.meters import tell_sittings
from fdarx_core.pipeline.planning import Planned, plan_part
from fdarx_core.pipeline.stepping import AskBaseline, Asking, Step, run_steps
from fdarx_core.pipeline.sweep.fleet import Fleet
from fdarx_core.pipeline.sweep.interviews import Interviews
from fdarx_core.pipeline.sweep.parts import Given, Parts
from fdarx_core.pipeline.sweep.sitting import AnswerAll, GradeAll, Sitting, TakeGiven
from fdarx_core.pipeline.sweep.what import Sweep, baseline
from fdarx_core.pipeline.sweep.windows import cluster_has

_LOG = logging.getLogger(__name__)

_PARTS_IN_TALK = 4
"""Parts of a lane that are asked about at once: some thousand requests, so that none waits for the last of a part."""

_LOOK_EVERY_S = 1.0
"""At models that are not ready."""


@dataclass(slots=True)
class Lane:
    """One model's way through the parts that it has not sat. `ended` says what ended asking on it."""

    model: str
    parts: deque[int]
    ended: str = ""
    flying: int = 0

    @property
    def waiting(self) -> bool:
        """Whether there is a part to submit."""
        return bool(self.parts) and not self.ended


@dataclass(slots=True)
class Hall:
    """Where sittings take place: the run's parts and store, answers made elsewhere, the models' fleet, the process that
    asks."""

    parts: Parts
    sweep: Sweep
    store: ResponseStore
    given: Any
    fleet: Fleet
    interviews: Any = None
    rules: Any = None

    def __post_init__(self) -> None:
        # Put once: the store brings its index, which grows with the run.
        self.given, self.rules = ray.put(self.given), ray.put(AskBaseline(baseline(), self.store))

    def open(self, control: Control, lanes: int) -> None:
        """Starts the asking process, which is not needed where only rules are asked."""
        talks: Any = ray.remote(Interviews)
        bounds = {"max_restarts": 4, "max_task_retries": 4, "max_concurrency": lanes * _PARTS_IN_TALK}
        made = talks.options(num_cpus=0, label_selector=beside_driver(), **bounds)
        self.interviews = made.remote(self.sweep.outside, self.store.root, control.name)

    def run(self, lanes: Sequence[Lane]) -> Iterator[Lane | None]:
        """The lane of each part as it ends, and None now and then while models are not ready.

        What goes wrong in a lane ends that lane alone.
        """
        flying: dict[Any, Lane] = {}
        while True:
            self._tend(lanes)
            for lane in lanes:
                while lane.waiting and self._ready(lane) and lane.flying < self._window(lane):
                    flying[self._submit(lane.model, lane.parts.popleft())] = lane
                    lane.flying += 1
            held_up = any(lane.waiting and not self._ready(lane) for lane in lanes)
            if not (flying or held_up):
                return
            yield self._landed(flying, _LOOK_EVERY_S if held_up else None)

    def _landed(self, flying: dict[Any, Lane], within_s: float | None) -> Lane | None:
        """The lane of the part that ends next, if one does within so many seconds."""
        if not flying:
            time.sleep(within_s or 0)
            return None
        done, _ = ray.wait(list(flying), num_returns=1, timeout=within_s)
        if not done:
            return None
        lane = flying.pop(done[0])
        lane.flying -= 1
        lane.ended = lane.ended or _outcome(done[0])
        return lane

    def _tend(self, lanes: Sequence[Lane]) -> None:
        """Keep the models that lanes need, and end the lanes whose models there will not be."""
        self.fleet.tend({name for lane in lanes if lane.waiting or lane.flying for name in self._needed(lane)})
        for lane in lanes:
            failures = map(self.fleet.failed, self._needed(lane) if lane.waiting else ())
            lane.ended = lane.ended or next((failure for failure in failures if failure), "")

    def _needed(self, lane: Lane) -> list[str]:
        """The models that its parts ask."""
        answerer = [lane.model] if lane.model in self.sweep.answerers else []
        return [name for name in (self.sweep.judge, *answerer) if name in self.sweep.used]

    def _ready(self, lane: Lane) -> bool:
        return all(map(self.fleet.ready, self._needed(lane)))

    def _window(self, lane: Lane) -> int:
        return _PARTS_IN_TALK if self._talks(lane.model) else max(2, cluster_has("CPU"))

    def _talks(self, model: str) -> list[Step[Sitting]]:
        """The steps of a lane from the first to the last that ask a model on a server."""
        steps = steps_of(self.sweep, model)
        asking = [
            i for i, step in enumerate(steps) if isinstance(step, Asking) and step.endpoints & self.sweep.used.keys()
        ]
        return steps[asking[0] : asking[-1] + 1] if asking else []

    def _submit(self, model: str, part: int) -> Any:
        steps, talk = steps_of(self.sweep, model), self._talks(model)
        at = Place(self.parts, self.sweep, model, part)
        given = None if model in self.sweep.answerers else self.given
        if not talk:
            return _SIT.remote(at, given, steps, self.rules)
        first = steps.index(talk[0])
        held = self.interviews.hold.remote(talk, _BEGIN.remote(at, given, steps[:first], self.rules))
        return _END.remote(at, held, steps[first + len(talk) :], self.rules)


def steps_of(sweep: Sweep, model: str) -> list[Step[Sitting]]:
    """A lane's steps, but for answers made elsewhere, which are taken when a sitting begins."""
    grade = GradeAll(sweep.address(sweep.judge))
    if model not in sweep.answerers:
        return [grade]
    config = sweep.models.get(model)
    prices = config.prices if config else None
    return [AnswerAll(sweep.address(model), sweep.room(model), sweep.top_k, prices), grade]


def plan_sittings(parts: Parts, sweep: Sweep, model: str, part: int) -> list[Planned]:
    """What a model's sittings of a part would ask."""
    return plan_part(steps_of(sweep, model), baseline(), sweep.models, parts.sittings(sweep, model, part))


@dataclass(frozen=True, slots=True)
class Place:
    """One part of one model's."""

    parts: Parts
    sweep: Sweep
    model: str
    part: int


def _sit(at: Place, given: Given | None, steps: Sequence[Step[Sitting]], answer: AskBaseline) -> str:
    return _end(at, _begin(at, given, steps, answer), [], answer)


def _begin(at: Place, given: Given | None, steps: Sequence[Step[Sitting]], answer: AskBaseline) -> Sequence[Sitting]:
    sittings = at.parts.sittings(at.sweep, at.model, at.part, given)
    first = [TakeGiven(given)] if given is not None else []
    return run_steps([*first, *steps], sittings, answer)


def _end(at: Place, sittings: Sequence[Sitting], steps: Sequence[Step[Sitting]], answer: AskBaseline) -> str:
    """What ended asking, or "". Nothing is written of a part that it did not last for: it is sat again."""
    ended = next((sitting.ended for sitting in sittings if sitting.ended), "")
    if not ended:
        run_steps(steps, sittings, answer)
        at.parts.write_sittings(at.sweep, at.model, at.part, sittings)
        tell_sittings(at.parts.run.root.name, at.model, sittings)
    return ended


_BEGIN: Any = ray.remote(_begin)
_END: Any = ray.remote(_end)
_SIT: Any = ray.remote(_sit)


def _outcome(ready: Any) -> str:
    """What ended asking, or ""; where the task failed, its error ends the lane as a server's would."""
    try:
        return str(ray.get(ready))
    except ray.exceptions.RayError as error:
        _LOG.error("a sitting failed: %s", error)
        return f"a sitting failed: {str(getattr(error, 'cause', None) or error).splitlines()[0]}"
