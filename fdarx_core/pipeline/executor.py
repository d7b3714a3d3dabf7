"""The interface of executors: where stages of steps run, in this process or on Ray."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from fdarx_core.llm import ModelConfig, ModelsError, ResponseStore, ask
from fdarx_core.pipeline.asking import AskProgress, ClientPool, PlanRow
from fdarx_core.pipeline.steps import Answer, Part, Resource, Stage
from fdarx_core.telemetry import Span, span

Item = TypeVar("Item")
Result = TypeVar("Result")

PartProgress: TypeAlias = Callable[[int, int, str], None]
"""A function that is called with the number of finished parts or items, the number of all, and a note."""

ExecutorName = Literal["auto", "local", "ray"]

SMALL = 64
"""Labels, documents or answers up to which `auto` runs a job in this process: starting Ray would take longer."""


_LOG = logging.getLogger(__name__)
_END = object()
_POLL_S = 1.0
"""Seconds between checks of models that are not ready."""
_STOP_S, _STOP_POLL_S = 30.0, 0.1
"""Maximum number of seconds in which asking stops, and the seconds between checks."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job asks a Ray cluster for, whether the machines are there already or are still to be added.

    Args:
        cpus: CPUs for tasks and for actors without a GPU; None: those that are there.
        gpus: GPUs of all actors together; None: those that are there.
        gpus_per_actor: The fraction of a GPU for each actor; None: a whole one, or an equal share where actors of
            several kinds share the GPUs.
        on_cluster: Whether the cluster may add machines, so that more tasks wait on it than its CPUs can run.
        asking_workers: The processes that send requests; None: as many as the limits of the models are worth.
    """

    cpus: int | None = None
    gpus: int | None = None
    gpus_per_actor: float | None = None
    on_cluster: bool = False
    asking_workers: int | None = None


@dataclass(frozen=True, slots=True)
class PartResult:
    """The result of one part of a stage.

    `account` is what the stage's `write` returned. `ended` is the reason why the part was not finished, else "";
    nothing of an unfinished part is written, and a later run makes it. A result whose `part` is None has no content; it
    lets the driver show that it waits.
    """

    stage: str
    part: int | None
    account: Any = None
    ended: str = ""


class ModelFleet(Protocol):
    """Models that a job starts and stops, whatever serves them.

    Other names belong to models that already run; the fleet ignores them.
    """

    def located(self, models: Mapping[str, ModelConfig]) -> dict[str, ModelConfig]:
        """Return the models, those of the fleet with the addresses at which they will answer. Raises ModelsError."""

    def tend(self, wanted: Collection[str]) -> None:
        """Update the state of the models, stop those that are no longer wanted, and start wanted ones that fit.

        It is called about every second while a wanted model is not ready, and must not block.
        """

    def ready(self, name: str) -> bool:
        """Return whether the model accepts requests."""

    def failed(self, name: str) -> str:
        """Return why the model will never be ready, or ""."""

    def state(self) -> str:
        """Return which models are starting and which wait, for the display of progress, or ""."""


Stages: TypeAlias = Sequence[tuple[Stage[Any], Sequence[Part]]]
"""Stages, each with the parts to make."""


@dataclass(frozen=True, slots=True)
class Work:
    """Parts of stages to compute, with the models to ask, the response store, and the resources that steps call.

    Where asking ends early, parts say so in `ended`. With `isolated` stages, an error of a step does the same and ends
    its stage alone; else it ends all work with an exception. With a `fleet`, a stage begins once the models that it
    asks are ready.
    """

    stages: Stages
    clients: ClientPool
    store: ResponseStore
    resources: Mapping[str, Resource] = field(default_factory=dict)
    fleet: ModelFleet | None = None
    isolated: bool = False

    @property
    def answer(self) -> Answer:
        """The function that answers requests by the rules, through the run's store."""
        return partial(ask, baseline=self.clients.rules, store=self.store)


@dataclass(frozen=True, slots=True)
class Call:
    """An operator of a flow that calls a method of a resource with each item."""

    resource: Resource
    method: str


Operator: TypeAlias = Callable[[Any], Any] | Call
"""An operator of a flow: a function of an item, or a method of a resource."""


def part_span(name: str, stage: Stage[Any], number: int) -> AbstractContextManager[Span]:
    """Return a span for the work on a part of a stage, or for some of its steps."""
    return span(f"{name} {stage.name}", {"fdarx.stage": stage.name, "fdarx.part": number})


MakePart: TypeAlias = Callable[[Stage[Any], Part], Awaitable[tuple[Any, str]]]
"""Makes and writes a part of a stage; returns its account, and why it was not finished, or ""."""


class SideBySide:
    """Makes the parts of stages, each stage at its own speed: none waits for another.

    Args:
        work: The stages, and the fleet of their models.
        make: Makes a part, in an event loop in a thread of its own.
        window: Returns the number of parts of a stage that are made at the same time; it may change.
        close: Is called at the end.
    """

    def __init__(
        self, work: Work, make: MakePart, window: Callable[[Stage[Any]], int], close: Callable[[], Awaitable[None]]
    ) -> None:
        self._work, self._make, self._window, self._close = work, make, window, close
        self._unfinished = [stage for stage, parts in work.stages if parts]
        self._results = queue.Queue[Any]()
        self._stopped = False

    def run(self) -> Iterator[PartResult]:
        """Yield the parts as they end, and a result without a part now and then while models are not ready."""
        threading.Thread(target=copy_context().run, args=(self._run_loop,), daemon=True).start()
        try:
            while (result := self._results.get()) is not _END:
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            self._stopped = True

    def _run_loop(self) -> None:
        try:
            asyncio.run(self._run_stages())
        except BaseException as error:
            self._results.put(error)
        self._results.put(_END)

    async def _run_stages(self) -> None:
        tending = asyncio.create_task(self._tend())
        try:
            await asyncio.gather(*(self._run_stage(stage, parts) for stage, parts in self._work.stages if parts))
        finally:
            tending.cancel()
            await self._close()

    async def _tend(self) -> None:
        """Let the fleet start and stop models, and let the driver show that stages wait for them."""
        try:
            while fleet := self._work.fleet:
                wanted = {name for stage in self._unfinished for name in stage.models(self._work.clients.models)}
                await asyncio.to_thread(fleet.tend, wanted)
                if not all(map(fleet.ready, wanted)):
                    self._results.put(PartResult("", None))
                await asyncio.sleep(_POLL_S)
        except Exception as error:
            self._results.put(error)

    async def _await_models(self, stage: Stage[Any]) -> str:
        """Return once all models of a stage are ready, or why one of them never will be."""
        fleet, names = self._work.fleet, stage.models(self._work.clients.models)
        if fleet is None:
            return ""
        while not (failed := next(filter(None, map(fleet.failed, names)), "")):
            if self._stopped or all(map(fleet.ready, names)):
                break
            await asyncio.sleep(_POLL_S)
        return failed

    async def _run_stage(self, stage: Stage[Any], parts: Sequence[Part]) -> None:
        """Make the parts of a stage; once one is not finished, those that have not begun are left to a later run."""
        running, ended = set[asyncio.Task[str]](), ""
        try:
            for part in parts:
                while not ended and len(running) >= self._window(stage):
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    ended = next(filter(None, (task.result() for task in done)), "")
                if not ended and (ended := await self._await_models(stage)):
                    self._results.put(PartResult(stage.name, None, ended=ended))
                if ended or self._stopped:
                    break
                running.add(asyncio.create_task(self._make_part(stage, part)))
            await asyncio.gather(*running)
            self._unfinished.remove(stage)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _make_part(self, stage: Stage[Any], part: Part) -> str:
        try:
            account, ended = await self._make(stage, part)
        except Exception as error:
            if not self._work.isolated:
                raise
            _LOG.error("%s failed: %s", stage.name, error)
            cause = getattr(error, "cause", None) or error
            first = (str(cause).splitlines() or [""])[0]
            account, ended = None, f"{stage.name} failed: {first or type(cause).__name__}"
        self._results.put(PartResult(stage.name, part.number, account, ended))
        return "" if self._work.clients.batch_files else ended  # in files, the requests of other parts can be written


class Executor(ABC):
    """Runs work in this process or on Ray. The rows do not depend on the executor."""

    name: str
    demand = Demand()
    flows: dict[str, Any]
    """By the name of each stage that was a flow of Ray Data: the tasks, rows and seconds of each operator."""

    def __init__(self) -> None:
        self.flows = {}

    @abstractmethod
    def run(self, work: Work) -> Iterator[PartResult]:
        """Make the parts, and yield the result of each in the order of completion. Raises what a step raised."""

    @abstractmethod
    def plan(self, work: Work) -> Iterator[list[PlanRow]]:
        """Yield the requests of the work, part by part, without sending requests or writing files."""

    @abstractmethod
    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the result of a function for each item, in the order of the items, which are consumed as needed."""

    @abstractmethod
    def flow(self, name: str, items: Iterable[Any], *operators: Operator) -> Iterator[Any]:
        """Yield what operators, one after the other, make of each item, in the order of completion.

        On Ray this is a flow of Ray Data, whose figures `flows` has by this name. All items are in memory at once.
        """

    def count(self, metric: str, by: float, tags: Mapping[str, str]) -> None:  # noqa: B027 (Ray alone collects metrics)
        """Add to a metric of a run, if metrics are collected."""

    @property
    def gpus(self) -> int:
        """The number of GPUs that work may use."""
        return 0

    @property
    def cpus(self) -> int:
        """The number of CPUs that work may use, at least 1."""
        return os.cpu_count() or 1

    @property
    def backlog(self) -> int:
        """The number of tasks that are worth having on their way at once; on a cluster it changes during a job."""
        return 2 * self.cpus

    @abstractmethod
    def asking(self) -> AskProgress | None:
        """Return the latest progress of requests; None if no requests are sent."""

    @abstractmethod
    def stop_asking(self) -> None:
        """Stop sending requests. Does not wait."""

    def await_stopped(self) -> None:
        """Wait for at most 30 seconds until the responses to requests in flight are stored."""
        end = time.monotonic() + _STOP_S
        while time.monotonic() < end and (progress := self.asking()) is not None and not progress.stopped:
            time.sleep(_STOP_POLL_S)

    def models_resource(
        self, factory: Callable[..., Any], *arguments: Any, items: int | None = None, kinds: int = 1, off_gpu: int = 1
    ) -> Resource:
        """Return a resource that computes on GPUs.

        Args:
            factory: It makes what an actor holds.
            arguments: Its arguments.
            items: The number of calls, if it is known; there are no more actors than calls.
            kinds: The number of resources that compute on the same GPUs at the same time, this one included. Each has
                an equal share.
            off_gpu: The number of actors where there are no GPUs and none are asked for.

        Raises:
            ModelsError: The GPUs that are asked for have no room for an actor of each kind.
        """
        if not self.gpus:
            return Resource(factory, arguments, _at_most(off_gpu, items))
        share = self.demand.gpus_per_actor or (1.0 if kinds == 1 else round(0.99 / kinds, 2))
        size = self.gpus * int(1 / share) // kinds
        if not size:
            raise ModelsError(
                f"{kinds} kinds of models with {share:g} GPUs each do not fit on {self.gpus} "
                f"GPU{'s' if self.gpus > 1 else ''}; give a higher --gpus or a lower --gpus-per-actor"
            )
        return Resource(factory, arguments, _at_most(size, items), share)

    def cpu_resource(self, factory: Callable[..., Any], *arguments: Any, items: int) -> Resource:
        """Return a resource that computes on CPUs while no tasks run, with one actor per CPU, and no more than calls.

        Its actors reserve a little less than a CPU, so that as many as there are CPUs fit beside other actors.
        """
        return Resource(factory, arguments, _at_most(self.cpus, items), cpus=0.9)


def _at_most(size: int, items: int | None) -> int:
    return size if items is None else max(1, min(size, items))
