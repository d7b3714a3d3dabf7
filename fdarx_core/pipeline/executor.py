"""The interface of executors: where stages of steps run, in this process or on Ray."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from fdarx_core.llm import ModelConfig, ResponseStore, ask
from fdarx_core.pipeline.asking import AskProgress, ClientPool
from fdarx_core.pipeline.planning import PlanRow
from fdarx_core.pipeline.steps import Answer, Part, Resource, Stage

Item = TypeVar("Item")
Result = TypeVar("Result")

PartProgress: TypeAlias = Callable[[int, int], None]
"""Called with the number of parts or items that are done, and of all."""

ExecutorName = Literal["auto", "local", "ray"]

SMALL = 64
"""Labels, documents or answers up to which `auto` runs a job in this process: starting Ray would take longer."""


@dataclass(frozen=True, slots=True)
class PartResult:
    """The result of one part of a stage.

    `account` is what the stage's `write` returned. `ended` says why the part was not finished, or is "": nothing of it
    was written then, and a later run makes it. A result with `part` None has no content; it lets the driver show that
    it waits.
    """

    stage: str
    part: int | None
    account: Any = None
    ended: str = ""


class ModelFleet(Protocol):
    """Models that a job starts and stops itself; the job does not know what serves them.

    A name that is not the fleet's own belongs to a model that runs already, and is left alone.
    """

    def located(self, models: Mapping[str, ModelConfig]) -> dict[str, ModelConfig]:
        """Return the same models, the fleet's own at the addresses where they will answer. Raises ModelsError."""

    def tend(self, wanted: Collection[str]) -> None:
        """Look at the models, stop those that are no longer wanted, start those that there is room for.

        Called about every second while a wanted model is not ready; it must not wait for anything.
        """

    def ready(self, name: str) -> bool:
        """Return whether the model can be asked."""

    def failed(self, name: str) -> str:
        """Return why the model will never be ready, or ""."""

    def state(self) -> str:
        """Return what is starting and what waits, for a line of progress, or ""."""


Stages: TypeAlias = Sequence[tuple[Stage[Any], Sequence[Part]]]
"""Stages, each with the parts of it that are to be made."""


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


def describe(stage: Stage[Any], error: BaseException) -> str:
    """Return the line that says what ended a stage that failed by itself."""
    cause = getattr(error, "cause", None) or error
    first = (str(cause).splitlines() or [""])[0]
    return f"{stage.name} failed: {first or type(cause).__name__}"


class Executor(ABC):
    """Runs work, and has the means to stop asking. The same rows come from every executor."""

    name: str

    @abstractmethod
    def run(self, work: Work) -> Iterator[PartResult]:
        """Make the parts; yields each as it is done. Raises what a step raised."""

    @abstractmethod
    def plan(self, work: Work) -> Iterator[list[PlanRow]]:
        """Return, part by part, what the work would ask, without asking or writing."""

    @abstractmethod
    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Return what a function makes of each item, in the order in which they are done; items are taken as needed."""

    @abstractmethod
    def map_resource(self, resource: Resource, method: str, items: Iterable[Any]) -> Iterator[Any]:
        """Return what a method of the resource makes of each item, as `map` does."""

    @abstractmethod
    def count(self, metric: str, by: float, tags: Mapping[str, str]) -> None:
        """Add to a metric of a run, where metrics are collected."""

    @property
    @abstractmethod
    def gpus(self) -> int:
        """The number of GPUs that work may use."""

    @property
    @abstractmethod
    def cpus(self) -> int:
        """The number of CPUs that work may use, one at least."""

    @abstractmethod
    def asking(self) -> AskProgress | None:
        """Return the latest state of asking; None where nothing is asked."""

    @abstractmethod
    def stop_asking(self) -> None:
        """Stop sending requests. Does not wait."""

    @abstractmethod
    def await_stopped(self, bound_s: float = 30.0) -> None:
        """Wait, within a bound in seconds, until what was in flight when asking stopped is stored."""

    def models_resource(self, factory: Callable[..., Any], *arguments: Any, items: int | None = None) -> Resource:
        """Return a resource that computes on GPUs: one a GPU, a single one where there is none."""
        size = self.gpus or 1
        return Resource(factory, arguments, size if items is None else max(1, min(size, items)), min(1.0, self.gpus))
