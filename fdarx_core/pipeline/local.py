"""The executor that runs everything in this process, without Ray."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial, reduce
from typing import Any, TypeVar

from fdarx_core.pipeline.asking import AskProgress, AskSession, PlanRow, ResourceCaller, plan_part
from fdarx_core.pipeline.executor import Call, Executor, Operator, PartResult, SideBySide, Work, part_span
from fdarx_core.pipeline.steps import Part, Resource, Stage, cut_steps, run_steps

Item = TypeVar("Item")
Result = TypeVar("Result")

_BATCH_PARTS = 128
"""Parts of a stage in progress at once where models are asked in batches, which the parts in progress fill together. A
real label of a build took 6 MB with its requests, so 128 parts of eight labels take 6 GB."""


class LocalExecutor(Executor):
    """Runs steps in an event loop in a thread of its own, in which it also asks and waits."""

    name = "local"

    def __init__(self) -> None:
        super().__init__()
        # Shared by the driver's thread and the event loop; each is written by one side only.
        self._progress: AskProgress | None = None
        self._stopping = False

    def run(self, work: Work) -> Iterator[PartResult]:
        session = AskSession(work.clients, work.store.root, self._report, resource_caller(work.resources))

        async def make(stage: Stage[Any], part: Part) -> tuple[Any, str]:
            before, asking, after = cut_steps(stage.steps, work.clients.models)
            with part_span("part", stage, part.number):
                states = run_steps(before, stage.read(part), work.answer)
                if asking and (ended := await session.run(asking, states)):
                    return None, ended
                return stage.write(part.number, run_steps(after, states, work.answer)), ""

        async def close() -> None:
            await session.close()
            if self._progress is not None:
                self._progress.stopped = True

        batch = work.clients.batch
        return SideBySide(work, make, lambda stage: _BATCH_PARTS if batch else stage.window, close).run()

    def plan(self, work: Work) -> Iterator[list[PlanRow]]:
        call = resource_caller(work.resources)
        for stage, parts in work.stages:
            for part in parts:
                yield asyncio.run(plan_part(stage, part, work.clients, call))

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return map(function, items)

    def flow(self, name: str, items: Iterable[Any], *operators: Operator) -> Iterator[Any]:
        functions: list[Callable[[Any], Any]] = []
        for item in items:
            for operator in operators[len(functions) :]:  # made when the first item is there
                if isinstance(operator, Call):
                    resource = operator.resource
                    operator = getattr(resource.factory(*resource.arguments), operator.method)
                functions.append(operator)
            yield reduce(lambda value, function: function(value), functions, item)

    def asking(self) -> AskProgress | None:
        return self._progress

    def stop_asking(self) -> None:
        self._stopping = True

    async def _report(self, progress: AskProgress) -> bool:
        self._progress = progress
        return self._stopping


def resource_caller(resources: Mapping[str, Resource]) -> ResourceCaller:
    """Return a function that makes each resource when it is first called, and calls it in a thread, one caller at a
    time."""
    held = {name: (threading.Lock(), cache(partial(one.factory, *one.arguments))) for name, one in resources.items()}

    def call_now(name: str, method: str, arguments: Sequence[Any]) -> Any:
        lock, resource = held[name]
        with lock:
            return getattr(resource(), method)(*arguments)

    async def call(name: str, method: str, *arguments: Any) -> Any:
        return await asyncio.to_thread(call_now, name, method, arguments)

    return call
