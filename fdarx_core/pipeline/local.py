"""The executor that runs everything in this process, without Ray."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from typing import Any, TypeVar

from fdarx_core.pipeline.asking import AskProgress, AskSession, Call, PlanRow, plan_part
from fdarx_core.pipeline.executor import Executor, PartResult, Stages, Work, describe, part_span
from fdarx_core.pipeline.steps import Part, Resource, Stage, cut_steps, run_steps

Item = TypeVar("Item")
Result = TypeVar("Result")

_END = object()

_BATCH_PARTS = 128
"""Parts of a stage in progress at once where models are asked in batches, which the parts in progress fill together. A
real label of a build took 6 MB with its requests, so 128 parts of eight labels take 6 GB."""


class LocalExecutor(Executor):
    """Runs plain steps one after the other, and asks and waits in an event loop in a thread of its own."""

    name = "local"

    def __init__(self) -> None:
        # Shared by the driver's thread and the event loop; each is written by one side only.
        self._progress: AskProgress | None = None
        self._stopping = False
        self._stopped = threading.Event()

    def run(self, work: Work) -> Iterator[PartResult]:
        asking = []
        for stage, parts in work.stages:
            if cut_steps(stage.steps, work.clients.models)[1]:
                asking.append((stage, parts))
            else:
                yield from self._run_plain(work, stage, parts)
        if asking:
            yield from self._run_asking(work, asking)

    def plan(self, work: Work) -> Iterator[list[PlanRow]]:
        call = resource_caller(work.resources)
        for stage, parts in work.stages:
            for part in parts:
                yield asyncio.run(plan_part(stage, part, work.clients, call))

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return map(function, items)

    def map_resource(self, resource: Resource, method: str, items: Iterable[Any]) -> Iterator[Any]:
        made = None
        for item in items:
            made = made or resource.factory(*resource.arguments)
            yield getattr(made, method)(item)

    def count(self, metric: str, by: float, tags: Mapping[str, str]) -> None:
        return

    @property
    def gpus(self) -> int:
        return 0

    @property
    def cpus(self) -> int:
        return os.cpu_count() or 1

    def asking(self) -> AskProgress | None:
        return self._progress

    def stop_asking(self) -> None:
        self._stopping = True

    def await_stopped(self, bound_s: float = 30.0) -> None:
        if self._progress is not None:
            self._stopped.wait(bound_s)

    async def _report(self, progress: AskProgress) -> bool:
        self._progress = progress
        if progress.stopped:
            self._stopped.set()
        return self._stopping

    def _run_plain(self, work: Work, stage: Stage[Any], parts: Sequence[Part]) -> Iterator[PartResult]:
        for part in parts:
            try:
                with part_span("part", stage, part.number):
                    account = stage.write(part.number, run_steps(stage.steps, stage.read(part), work.answer))
                yield PartResult(stage.name, part.number, account)
            except Exception as error:
                if not work.isolated:
                    raise
                yield PartResult(stage.name, part.number, ended=describe(stage, error))
                return

    def _run_asking(self, work: Work, stages: Stages) -> Iterator[PartResult]:
        results: queue.Queue[Any] = queue.Queue()

        def run_loop() -> None:
            try:
                asyncio.run(self._ask(work, stages, results.put))
            except BaseException as error:
                results.put(error)
            results.put(_END)

        self._stopped.clear()
        threading.Thread(target=copy_context().run, args=(run_loop,), daemon=True).start()
        while (result := results.get()) is not _END:
            if isinstance(result, BaseException):
                raise result
            yield result

    async def _ask(self, work: Work, stages: Stages, report: Callable[[PartResult], None]) -> None:
        session = AskSession(work.clients, work.store.root, self._report, resource_caller(work.resources))
        try:
            await asyncio.gather(*(self._ask_stage(work, stage, parts, session, report) for stage, parts in stages))
        finally:
            await session.close()
            self._stopped.set()

    async def _ask_stage(
        self,
        work: Work,
        stage: Stage[Any],
        parts: Sequence[Part],
        session: AskSession,
        report: Callable[[PartResult], None],
    ) -> None:
        before, asking, after = cut_steps(stage.steps, work.clients.models)
        waiting = iter(parts)

        async def make_parts() -> None:
            for part in waiting:  # shared by all workers of the stage
                try:
                    with part_span("part", stage, part.number):
                        states = run_steps(before, stage.read(part), work.answer)
                        ended = await session.run(asking, states)
                        account = None if ended else stage.write(part.number, run_steps(after, states, work.answer))
                except Exception as error:
                    if not work.isolated:
                        raise
                    account, ended = None, describe(stage, error)
                report(PartResult(stage.name, part.number, account, ended))
                if ended:
                    for _ in waiting:  # what is left of the stage is left to a later run
                        pass

        window = _BATCH_PARTS if work.clients.batch else stage.window
        workers = [asyncio.create_task(make_parts()) for _ in range(min(len(parts), window))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


def resource_caller(resources: Mapping[str, Resource]) -> Call:
    """Return a function that makes each resource when it is first called, and calls it in a thread, one caller at a
    time."""
    made: dict[str, Any] = {}
    locks = {name: threading.Lock() for name in resources}

    def call_now(name: str, method: str, arguments: Sequence[Any]) -> Any:
        with locks[name]:
            if name not in made:
                made[name] = resources[name].factory(*resources[name].arguments)
            return getattr(made[name], method)(*arguments)

    async def call(name: str, method: str, *arguments: Any) -> Any:
        return await asyncio.to_thread(call_now, name, method, arguments)

    return call
