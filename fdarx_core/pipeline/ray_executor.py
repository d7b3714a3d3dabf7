"""The executor that runs stages on Ray: a single one as a flow of Ray Data, several side by side as tasks."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import ray

from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline import metrics
from fdarx_core.pipeline.asking import AskProgress, PlanRow, plan_part
from fdarx_core.pipeline.control import AskWorker, off_gpu_machines, on_driver_node, start_control
from fdarx_core.pipeline.executor import Call, Demand, Executor, Operator, PartResult, SideBySide, Work, part_span
from fdarx_core.pipeline.local import resource_caller
from fdarx_core.pipeline.ray_data import Flow, stage_flow
from fdarx_core.pipeline.steps import Answer, Part, ResourceStep, Stage, Step, cut_steps, run_steps, step_name
from fdarx_core.telemetry import flush

Item = TypeVar("Item")
Result = TypeVar("Result")

_TASK_CPUS_BESIDE_ACTORS = 0.8
"""CPUs of a task while actors hold resources: as many tasks as there are CPUs fit beside what the actors take."""

_COUNT_EVERY_S = 1.0

_CALLS_AT_ONCE = 1_000
"""Calls of a worker that asks, of which each takes a part through its steps."""

_WORKER_REQUESTS_S = 2000.0
"""Requests a second that are worth a worker: about two thirds of what `benchmarks.asking` measures for a core."""
_SHORT_REPLY_S = 1.0
"""A short time for a reply of a language model, from which the most requests a second of a model are estimated."""

_LEAST_BACKLOG = 64
"""Tasks that wait on a cluster, whose autoscaler then adds machines for them; with these, twice as many tasks as CPUs
wait, and more machines are added while work is left. Each task holds its part in memory, up to a few megabytes."""


class RayExecutor(Executor):
    """Runs on the Ray instance that this process is connected to."""

    name = "ray"

    def __init__(self, demand: Demand = Demand()) -> None:  # noqa: B008 (it is frozen)
        super().__init__()
        self.demand = demand
        self._control: Any = None
        self._live_cpus, self._counted = 0, -math.inf

    def run(self, work: Work) -> Iterator[PartResult]:
        control = ""
        if work.clients.models or work.clients.others or work.resources:
            control, self._control = start_control(AskProgress())
        steps = [step for stage, _ in work.stages for step in stage.steps]
        if work.isolated or len(work.stages) != 1 or any(isinstance(step, ResourceStep) for step in steps):
            asking = {stage.name for stage, _ in work.stages if cut_steps(stage.steps, work.clients.models)[1]}
            workers = _start_workers(work, control, self._workers(work)) if asking else []

            async def close() -> None:
                await asyncio.gather(*(worker.close.remote() for worker in workers))

            def window(stage: Stage[Any]) -> int:
                return stage.window if stage.name in asking else self.backlog

            yield from SideBySide(work, _PartTasks(work, workers).make, window, close).run()
            return
        [(stage, parts)] = work.stages
        flow = stage_flow(work, stage, parts, self._workers(work), control, self.demand, self.backlog)
        try:
            for part, account in flow.run():
                yield PartResult(stage.name, part, account)
        except Exception:
            _, ended = self._state()  # of an error in an actor, Ray passes on no more than the text
            if not ended:
                raise
            yield PartResult(stage.name, None, ended=ended)
        self.flows.setdefault(stage.name, []).extend(flow.statistics())

    def _workers(self, work: Work) -> int:
        """Return the number of actors that ask. One keeps what has no shares: a budget, and the actors of resources."""
        clients, models = work.clients, work.clients.models.values()
        if work.resources or clients.others or clients.has_budget:
            return 1
        wanted = self.demand.asking_workers or workers_needed(models, self.cpus)
        return min(wanted, *(model.max_in_flight for model in models)) if models else 1

    def plan(self, work: Work) -> Iterator[list[PlanRow]]:
        parts = [(stage, part) for stage, listed in work.stages for part in listed]
        if work.resources:
            control, self._control = start_control(AskProgress())
            [worker] = _start_workers(work, control, 1)
            window = max(stage.window for stage, _ in work.stages)
            yield from _in_window(lambda item: worker.plan.remote(*item), parts, lambda: window)
            ray.get(worker.close.remote())
        else:
            clients = work.clients
            yield from self.map(lambda item: asyncio.run(plan_part(*item, clients, resource_caller({}))), parts)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        shared = ray.put(function)  # put once: it may bring much with it
        yield from _in_window(lambda item: _apply.remote(shared, item), items, lambda: self.backlog)

    def flow(self, name: str, items: Iterable[Any], *operators: Operator) -> Iterator[Any]:
        numbered = list(enumerate(items))
        if not numbered:
            return
        flow = Flow(numbered, self.demand)
        for operator in operators:
            if isinstance(operator, Call):
                flow.call(operator.resource, operator.method)
            else:
                flow.compute([step_name(operator)], partial(_apply_to_all, operator))
        for _, value in flow.run():
            yield value
        self.flows.setdefault(name, []).extend(flow.statistics())

    def count(self, metric: str, by: float, tags: Mapping[str, str]) -> None:
        metrics.add(metric, by, tags)

    @property
    def gpus(self) -> int:
        asked = self.demand.gpus
        if asked is not None and self.demand.on_cluster:
            return asked
        return _present("GPU") if asked is None else min(asked, _present("GPU"))

    @property
    def cpus(self) -> int:
        """The CPUs that are asked for, else those of the machines that are there now."""
        if self.demand.cpus is not None and self.demand.on_cluster:
            return self.demand.cpus
        if time.monotonic() - self._counted > _COUNT_EVERY_S:
            self._live_cpus, self._counted = max(1, _present("CPU")), time.monotonic()
        return self._live_cpus

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

    def _state(self) -> tuple[AskProgress | None, str]:
        """Return the state of the control actor; nothing where there is none, or where it is gone."""
        if self._control is None:
            return None, ""
        try:
            state: tuple[AskProgress, str] = ray.get(self._control.state.remote(), timeout=5)
        except ray.exceptions.RayError:
            return None, ""
        return state


def _present(resource: str) -> int:
    """Return how many of a resource, CPU or GPU, the machines have that are there now."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return int(resources.get(resource, 0))


def _start_workers(work: Work, control: str, count: int) -> list[Any]:
    """Start the workers that ask, each with an equal share of the limits."""
    actor: Any = ray.remote(AskWorker)
    options = {"num_cpus": 0, "label_selector": on_driver_node(), "max_restarts": 4, "max_task_retries": 4}
    arguments = (work.clients.share(count), work.store.root, work.resources, control)
    return [actor.options(max_concurrency=_CALLS_AT_ONCE, **options).remote(*arguments) for _ in range(count)]


def _apply_to_all(function: Callable[[Any], Any], _: int, items: list[Any]) -> list[Any]:
    return list(map(function, items))


@ray.remote
def _apply(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


def workers_needed(models: Iterable[ModelConfig], cpus: int) -> int:
    """Return how many workers the limits of models are worth, at most one for each two CPUs."""
    rate = sum(
        min(model.max_in_flight / _SHORT_REPLY_S, (model.requests_per_minute or math.inf) / 60) for model in models
    )
    return max(1, min(math.ceil(rate / _WORKER_REQUESTS_S), cpus // 2))


def _in_window(submit: Callable[[Item], Any], items: Iterable[Item], window: Callable[[], int]) -> Iterator[Any]:
    """Yield the values of the references that `submit` returns, in the order of the items; at most `window` are open at
    once, so that neither items nor values pile up. It may grow meanwhile."""
    in_flight = deque[Any]()
    for item in items:
        in_flight.append(submit(item))
        if len(in_flight) >= window():
            yield ray.get(in_flight.popleft())
    yield from map(ray.get, in_flight)


class _PartTasks:
    """Makes parts by tasks before and after the asking, and by the actors that ask.

    Args:
        work: The stages.
        workers: The actors that ask, `AskWorker`; none where no stage asks.
    """

    def __init__(self, work: Work, workers: Sequence[Any]) -> None:
        self._models, self._workers, self._load = work.clients.models, workers, [0] * len(workers)
        self._answer = ray.put(work.answer)
        self._stages = {stage.name: ray.put(stage) for stage, _ in work.stages}
        cpus = _TASK_CPUS_BESIDE_ACTORS if work.resources else 1.0
        task: Any = ray.remote(num_cpus=cpus, label_selector=off_gpu_machines())
        self._first, self._last = task(_first), task(_last)

    async def make(self, stage: Stage[Any], part: Part) -> tuple[Any, str]:
        """Make a part; of the workers, the one with the fewest parts asks."""
        (before, asking, after), shared = cut_steps(stage.steps, self._models), self._stages[stage.name]
        states: Any = self._first.remote(shared, before, part, self._answer)
        if not asking:
            made: tuple[Any, str] = await self._last.remote(shared, after, part.number, states, "", self._answer)
            return made
        worker = self._load.index(min(self._load))
        self._load[worker] += 1
        try:
            asked, ended = self._workers[worker].run.options(num_returns=2).remote(asking, states)
            made = await self._last.remote(shared, after, part.number, asked, ended, self._answer)
        finally:
            self._load[worker] -= 1
        return made


def _first(stage: Stage[Any], steps: Sequence[Step[Any]], part: Part, answer: Answer) -> Sequence[Any]:
    with part_span("begin", stage, part.number):
        states = run_steps(steps, stage.read(part), answer)
    flush()  # Ray ends workers without letting them send what they have left
    return states


def _last(
    stage: Stage[Any], steps: Sequence[Step[Any]], number: int, states: Sequence[Any], ended: str, answer: Answer
) -> tuple[Any, str]:
    """Finish a part and write it. A part in which asking was stopped is not written, and is computed again."""
    if ended:
        return None, ended
    with part_span("end", stage, number):
        account = stage.write(number, run_steps(steps, states, answer))
    flush()
    return account, ""
