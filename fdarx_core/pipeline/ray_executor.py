"""The executor that runs stages on Ray: a single one that asks models as a flow of Ray Data, others as tasks."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import ray

from fdarx_core.pipeline import metrics
from fdarx_core.pipeline.ask_peers import SharedActor, shared_name, worker_name, workers_needed
from fdarx_core.pipeline.asking import AskProgress, ClientPool, PlanRow, plan_part
from fdarx_core.pipeline.cluster import ClusterWait, cluster_has
from fdarx_core.pipeline.control import AskWorker, map_pool, on_driver_node, start_control
from fdarx_core.pipeline.executor import Demand, Executor, PartResult, Work, describe, part_span
from fdarx_core.pipeline.local import resource_caller
from fdarx_core.pipeline.ray_data import stream_parts
from fdarx_core.pipeline.steps import Answer, Part, Resource, Stage, Step, cut_steps, run_steps
from fdarx_core.telemetry import flush

Item = TypeVar("Item")
Result = TypeVar("Result")

_LOG = logging.getLogger(__name__)

_POLL_S = 1.0
"""Seconds between checks of models that are not ready."""

_COUNT_EVERY_S = 1.0

_CALLS_AT_ONCE = 10_000
"""Calls of a worker that asks: those for parts are few, and those of other workers must never wait behind them."""

_LEAST_BACKLOG = 64
"""Tasks that wait on a cluster, whose autoscaler then adds machines for them; with these, twice as many tasks as CPUs
wait, and more machines are added while work is left. Each task holds its part in memory, up to a few megabytes."""

_TASK_CPUS_BESIDE_ACTORS = 0.8
"""CPUs of a task while actors hold resources: as many tasks as there are CPUs fit beside what the actors take."""


class RayExecutor(Executor):
    """Runs on the Ray instance that this process is connected to."""

    name = "ray"

    def __init__(self, demand: Demand = Demand()) -> None:  # noqa: B008 (it is frozen)
        self.demand = demand
        self._control: Any = None
        self._wait = ClusterWait()
        self._live_cpus, self._counted = 0, -math.inf

    def run(self, work: Work) -> Iterator[PartResult]:
        control = ""
        if work.clients.asks or work.resources:
            control, self._control = start_control(AskProgress())
        workers = self.demand.asking_workers or workers_needed(work.clients.models.values(), self.cpus)
        if workers > 1 or not self._flows(work):
            yield from _Scheduler(work, control, lambda: self.backlog, workers).run()
        else:
            [(stage, parts)] = work.stages
            try:
                yield from stream_parts(work, stage, parts, control)
            except Exception:
                _, ended = self._state()  # of an error in an actor, Ray passes on no more than the text
                if not ended:
                    raise
                yield PartResult(stage.name, None, ended=ended)

    def _flows(self, work: Work) -> bool:
        """Return whether work is a flow of Ray Data.

        It shows an autoscaler few of the tasks, and asks it for CPUs that it takes from machines with GPUs too. Where
        no model is asked, a task for each part does the same with less: a flow takes seconds to begin and to end.
        """
        if self.demand.on_cluster or work.isolated or work.resources or len(work.stages) != 1:
            return False
        [(stage, _)] = work.stages
        return bool(cut_steps(stage.steps, work.clients.models)[1])

    def plan(self, work: Work) -> Iterator[list[PlanRow]]:
        parts = [(stage, part) for stage, listed in work.stages for part in listed]
        if work.resources:
            control, self._control = start_control(AskProgress())
            [worker], _ = _ask_workers(work, control, 1)
            window = max(stage.window for stage, _ in work.stages)
            yield from _in_window(lambda item: worker.plan.remote(*item), parts, lambda: window)
            ray.get(worker.close.remote())
        else:
            yield from self.map(partial(_plan, work.clients), parts)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        shared = ray.put(function)  # put once: it may bring much with it
        yield from _in_window(lambda item: _APPLY.remote(shared, item), items, lambda: self.backlog)

    def map_resource(self, resource: Resource, method: str, items: Iterable[Any]) -> Iterator[Any]:
        yield from map_pool(resource, method, items)

    def count(self, metric: str, by: float, tags: Mapping[str, str]) -> None:
        metrics.add(metric, by, tags)

    @property
    def gpus(self) -> int:
        asked = self.demand.gpus
        if asked is not None and self.demand.on_cluster:
            return asked
        return cluster_has("GPU") if asked is None else min(asked, cluster_has("GPU"))

    @property
    def cpus(self) -> int:
        """The CPUs that are asked for, else those of the machines that are there now."""
        if self.demand.cpus is not None and self.demand.on_cluster:
            return self.demand.cpus
        if time.monotonic() - self._counted > _COUNT_EVERY_S:
            self._live_cpus, self._counted = max(1, cluster_has("CPU")), time.monotonic()
        return self._live_cpus

    def waiting(self) -> str:
        return self._wait.text() if self.demand.on_cluster else ""

    @property
    def backlog(self) -> int:
        if self.demand.on_cluster and self.demand.cpus is not None:
            return self.demand.cpus  # no more, since Ray would add machines with GPUs for tasks that only need CPUs
        return max(2 * self.cpus, _LEAST_BACKLOG if self.demand.on_cluster else 0)

    def asking(self) -> AskProgress | None:
        progress, _ = self._state()
        return progress

    def stop_asking(self) -> None:
        if self._control:
            self._control.stop.remote()

    def await_stopped(self, bound_s: float = 30.0) -> None:
        end = time.monotonic() + bound_s
        while time.monotonic() < end and (progress := self.asking()) is not None and not progress.stopped:
            time.sleep(0.1)

    def _state(self) -> tuple[AskProgress | None, str]:
        """Return the state of the control actor; nothing where there is none, or where it is gone."""
        if self._control is None:
            return None, ""
        try:
            state: tuple[AskProgress, str] = ray.get(self._control.state.remote(), timeout=5)
        except ray.exceptions.RayError:
            return None, ""
        return state


@dataclass(slots=True)
class _Queue:
    """The parts of one stage that are still to be made. `ended` says what ended the stage."""

    stage: Stage[Any]
    parts: deque[Part]
    asking: Sequence[Step[Any]]
    reference: Any
    ended: str = ""
    in_flight: int = 0

    @property
    def waiting(self) -> bool:
        return bool(self.parts) and not self.ended


_PartInFlight: TypeAlias = tuple[_Queue, int, int | None]
"""The stage and the number of a part, and the number of the worker that asks for it."""


class _Scheduler:
    """Runs stages side by side, each at its own speed: none waits for another."""

    def __init__(self, work: Work, control: str, backlog: Callable[[], int], workers: int) -> None:
        self._work, self._control, self._backlog = work, control, backlog
        self._wanted_workers = workers
        self._models = frozenset(work.clients.models)
        # Stages and the store are put once: they may bring much with them, such as answers or an index of responses.
        self._queues = [
            _Queue(stage, deque(parts), cut_steps(stage.steps, self._models)[1], ray.put(stage))
            for stage, parts in work.stages
        ]
        self._answer = ray.put(work.answer)
        self._task_cpus = _TASK_CPUS_BESIDE_ACTORS if work.resources else 1.0
        self._workers: list[Any] = []
        self._parts_of: list[int] = []
        self._shared: Any = None

    def run(self) -> Iterator[PartResult]:
        """Yield each part as it ends, and now and then a result without a part while models are not ready."""
        asking = [queue for queue in self._queues if queue.asking]
        if asking and self._control:
            self._workers, self._shared = _ask_workers(self._work, self._control, self._wanted_workers)
            self._parts_of = [0] * len(self._workers)
        in_flight: dict[Any, _PartInFlight] = {}
        while True:
            yield from self._tend()
            for queue in self._queues:
                while queue.waiting and self._ready(queue.stage) and queue.in_flight < self._window(queue):
                    reference, started = self._submit(queue, queue.parts.popleft())
                    in_flight[reference] = started
                    queue.in_flight += 1
            not_ready = any(queue.waiting and not self._ready(queue.stage) for queue in self._queues)
            if not (in_flight or not_ready):
                break
            yield self._next(in_flight, _POLL_S if not_ready else None)
        ray.get([worker.close.remote() for worker in self._workers[1:]])
        ray.get([worker.close.remote() for worker in self._workers[:1]])  # which has what the others call

    def _tend(self) -> list[PartResult]:
        """Let the fleet start and stop models; return the stages of which a model has failed to start."""
        fleet = self._work.fleet
        if fleet is None:
            return []
        unfinished = [queue for queue in self._queues if queue.waiting or queue.in_flight]
        fleet.tend({name for queue in unfinished for name in queue.stage.models(self._models)})
        failed: list[PartResult] = []
        for queue in self._queues:
            if queue.waiting:
                queue.ended = next(filter(None, map(fleet.failed, queue.stage.models(self._models))), "")
                if queue.ended:
                    failed.append(PartResult(queue.stage.name, None, ended=queue.ended))
        return failed

    def _ready(self, stage: Stage[Any]) -> bool:
        fleet = self._work.fleet
        return fleet is None or all(map(fleet.ready, stage.models(self._models)))

    def _window(self, queue: _Queue) -> int:
        return queue.stage.window if queue.asking else self._backlog()

    def _next(self, in_flight: dict[Any, _PartInFlight], within_s: float | None) -> PartResult:
        if not in_flight:
            time.sleep(within_s or 0)
            return PartResult("", None)
        done, _ = ray.wait(list(in_flight), num_returns=1, timeout=within_s)
        if not done:
            return PartResult("", None)
        queue, number, worker = in_flight.pop(done[0])
        queue.in_flight -= 1
        if worker is not None:
            self._parts_of[worker] -= 1
        account, ended = self._outcome(queue.stage, done[0])
        queue.ended = queue.ended or ended
        return PartResult(queue.stage.name, number, account, ended)

    def _outcome(self, stage: Stage[Any], ready: Any) -> tuple[Any, str]:
        try:
            account, ended = ray.get(ready)
        except ray.exceptions.RayError as error:
            if not self._work.isolated:
                raise
            _LOG.error("%s failed: %s", stage.name, error)
            return None, describe(stage, error)
        return account, ended

    def _submit(self, queue: _Queue, part: Part) -> tuple[Any, _PartInFlight]:
        begin, end, make = (task.options(num_cpus=self._task_cpus) for task in (_BEGIN, _END, _MAKE))
        if not queue.asking:
            return make.remote(queue.reference, part, self._answer), (queue, part.number, None)
        worker = min(range(len(self._workers)), key=self._parts_of.__getitem__)
        self._parts_of[worker] += 1
        states = begin.remote(queue.reference, part, self._models, self._answer)
        asked = self._workers[worker].run.remote(queue.asking, states)
        ended = end.remote(queue.reference, part.number, asked, self._models, self._answer)
        return ended, (queue, part.number, worker)


def _plan(clients: ClientPool, item: tuple[Stage[Any], Part]) -> list[PlanRow]:
    return asyncio.run(plan_part(*item, clients, resource_caller({})))


def _begin(stage: Stage[Any], part: Part, models: Collection[str], answer: Answer) -> Sequence[Any]:
    with _worker_span("begin", stage, part.number):
        return run_steps(cut_steps(stage.steps, models)[0], stage.read(part), answer)


def _end(
    stage: Stage[Any], number: int, asked: tuple[Sequence[Any], str], models: Collection[str], answer: Answer
) -> tuple[Any, str]:
    """Finish a part and write it. A part in which asking was stopped is not written, and is computed again."""
    states, ended = asked
    if ended:
        return None, ended
    with _worker_span("end", stage, number):
        return stage.write(number, run_steps(cut_steps(stage.steps, models)[2], states, answer)), ""


def _make(stage: Stage[Any], part: Part, answer: Answer) -> tuple[Any, str]:
    with _worker_span("part", stage, part.number):
        return stage.write(part.number, run_steps(stage.steps, stage.read(part), answer)), ""


@contextmanager
def _worker_span(name: str, stage: Stage[Any], number: int) -> Iterator[None]:
    """Have a span for work on a part, and send it: Ray ends workers without letting them send what they have left."""
    with part_span(name, stage, number):
        yield
    flush()


def _apply(function: Callable[[Item], Result], item: Item) -> Result:
    return function(item)


_BEGIN: Any = ray.remote(_begin)
_END: Any = ray.remote(_end)
_MAKE: Any = ray.remote(_make)
_APPLY: Any = ray.remote(_apply)


def _ask_workers(work: Work, control: str, count: int) -> tuple[list[Any], Any]:
    """Start the workers that ask; return their handles, and that of what several share, which lives as long as it.

    Actors have names, by which they find each other also after they were restarted.
    """
    clients, shared = work.clients, None
    options = {"num_cpus": 0, "label_selector": on_driver_node()}
    if count > 1:
        budget = (clients.max_requests, clients.max_cost, clients.sent, clients.spent)
        made: Any = ray.remote(SharedActor)
        shared = made.options(name=shared_name(control), **options).remote(*budget)
        ray.get(shared.__ray_ready__.remote())
    options |= {"max_restarts": 4, "max_task_retries": 4, "max_concurrency": _CALLS_AT_ONCE}
    actor: Any = ray.remote(AskWorker)
    arguments = (clients, work.store.root, work.resources, control)
    workers = [
        actor.options(name=worker_name(control, number), **options).remote(*arguments, number, count > 1)
        for number in range(count)
    ]
    return workers, shared


def _in_window(submit: Callable[[Item], Any], items: Iterable[Item], window: Callable[[], int]) -> Iterator[Any]:
    """Yield what `submit` makes of each item, a Ray reference, as values in the order in which they are ready; at most
    `window` are on their way at once, so that neither items nor values pile up. It may grow meanwhile."""
    in_flight: list[Any] = []
    for item in items:
        in_flight.append(submit(item))
        if len(in_flight) >= window():
            yield _ready(in_flight)
    while in_flight:
        yield _ready(in_flight)


def _ready(in_flight: list[Any]) -> Any:
    [done], in_flight[:] = ray.wait(in_flight, num_returns=1)
    return ray.get(done)
