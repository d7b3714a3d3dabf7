"""Steps, and the stages that are made of them. This module does not import Ray; any executor runs the same steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from fdarx_core.llm import AskingStopped, Baseline, ResponseStore, ask
from fdarx_core.records import Request, Response

State = TypeVar("State")
StateIn = TypeVar("StateIn", contravariant=True)
"""What travels through steps: everything known so far of one label, evaluation sample, question or answer."""

Exchange: TypeAlias = tuple[Request, Response]
Answer = Callable[[Sequence[Request]], list[Response]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a request goes, and which settings of the endpoint enter its key."""

    name: str
    sampling: Mapping[str, Any]


class FunctionStep(Protocol[StateIn]):
    """A step that needs nothing but the state, which it changes in place."""

    def __call__(self, state: StateIn, /) -> None: ...


@runtime_checkable
class AskStep(Protocol[StateIn]):
    """A step in two halves, what to ask and what to do with the responses; the executor asks in between."""

    @property
    def endpoints(self) -> frozenset[str]:
        """The names of the endpoints that the step asks."""
        ...

    def requests(self, state: StateIn, /) -> list[Request]: ...

    def take(self, state: StateIn, exchanges: Sequence[Exchange], /) -> None:
        """Receive each of the requests with its response, in the order of the requests."""
        ...


class StepContext(Protocol):
    """What a resource step may use. `planning` is true in a plan, where built-in rules answer in place of models."""

    @property
    def planning(self) -> bool: ...

    async def ask(self, requests: Sequence[Request]) -> list[Response]:
        """Return one response per request, in order. Raises AskingStopped."""
        ...

    async def call(self, resource: str, method: str, *arguments: Any) -> Any:
        """Call a method of a resource of the stage, wherever the executor holds it."""
        ...

    def note(self, requests: Sequence[Request]) -> None:
        """Record, in a plan, requests to an endpoint that is no model and that a plan does not ask."""
        ...


@runtime_checkable
class ResourceStep(Protocol[StateIn]):
    """A step that uses something heavy (a model, an index), or asks several times; it gets all states of a part."""

    async def run(self, states: Sequence[StateIn], context: StepContext, /) -> None: ...


Step: TypeAlias = FunctionStep[State] | AskStep[State] | ResourceStep[State]


@dataclass(frozen=True, slots=True)
class Resource:
    """Something heavy that a stage needs, made by `factory(*arguments)`.

    Under Ray, actors hold it: `size` of them, each with the fraction `gpus` of a GPU.
    """

    factory: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    size: int = 1
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows that are made, stored and resumed together. `inputs` are what can't be read back by the number."""

    number: int
    inputs: Any = None


@dataclass(frozen=True, slots=True)
class Stage(Generic[State]):
    """Rows in parts → steps → rows.

    `read` returns the states of a part. `write` stores what the steps made of them, and returns a small
    account of the part for the driver. Both run where the executor runs steps, so all of this must pickle. `name` tells
    stages apart that run side by side.
    """

    name: str
    read: Callable[[Part], Sequence[State]]
    steps: Sequence[Step[State]]
    write: Callable[[int, Sequence[State]], Any]
    window: int = 8


@dataclass(frozen=True, slots=True)
class Segments(Generic[State]):
    """The steps of a stage cut in three; only those from the first to the last that ask a model or use a resource need
    an event loop, clients and resources, and `asking` holds them."""

    before: Sequence[Step[State]]
    asking: Sequence[Step[State]]
    after: Sequence[Step[State]]


def cut_steps(steps: Sequence[Step[State]], models: Collection[str]) -> Segments[State]:
    """Cut steps into segments; `models` are the endpoints that are not the built-in baseline."""
    waiting = [i for i, step in enumerate(steps) if _waits(step, models)]
    if not waiting:
        return Segments(steps, (), ())
    first, last = waiting[0], waiting[-1] + 1
    return Segments(steps[:first], steps[first:last], steps[last:])


def _waits(step: Step[Any], models: Collection[str]) -> bool:
    if isinstance(step, AskStep):
        return bool(step.endpoints & set(models))
    return isinstance(step, ResourceStep)


@dataclass(frozen=True, slots=True)
class AskBaseline:
    """Answers requests by the built-in rules, through the run's response store."""

    rules: Baseline
    store: ResponseStore | None = None

    def __call__(self, requests: Sequence[Request]) -> list[Response]:
        return ask(requests, self.rules, self.store)


def run_steps(steps: Sequence[Step[State]], states: Sequence[State], answer: Answer) -> list[State]:
    """Take states through steps of which none uses a resource; the requests of one step go out together."""
    for step in steps:
        if isinstance(step, AskStep):
            requests = [step.requests(state) for state in states]
            responses = iter(answer([request for listed in requests for request in listed]))
            for state, listed in zip(states, requests, strict=True):
                step.take(state, [(request, next(responses)) for request in listed])
        else:
            for state in states:
                step(state)  # type: ignore[operator]
    return list(states)


async def run_steps_async(steps: Sequence[Step[State]], states: Sequence[State], context: StepContext) -> str:
    """Take states through steps of any kind, as they ask and wait; no state waits for another, except at resource
    steps, which get all of them. Returns why asking ended early, or ""; the states are then of no use."""
    for number, step in enumerate(steps):
        if isinstance(step, ResourceStep) and not isinstance(step, AskStep):
            split = number
            break
    else:
        return await _run_each(steps, states, context)
    if ended := await _run_each(steps[:split], states, context):
        return ended
    try:
        await step.run(states, context)
    except AskingStopped as error:
        return str(error)
    return await run_steps_async(steps[split + 1 :], states, context)


async def _run_each(steps: Sequence[Step[State]], states: Sequence[State], context: StepContext) -> str:
    results = await asyncio.gather(*(_run_one(steps, state, context) for state in states), return_exceptions=True)
    ended = ""
    for error in results:
        if isinstance(error, AskingStopped):
            ended = ended or str(error)
        elif isinstance(error, BaseException):
            raise error
    return ended


async def _run_one(steps: Sequence[Step[State]], state: State, context: StepContext) -> None:
    for step in steps:
        if isinstance(step, AskStep):
            requests = step.requests(state)
            responses = await context.ask(requests)
            step.take(state, list(zip(requests, responses, strict=True)))
        else:
            step(state)  # type: ignore[operator]


async def plan_steps(
    steps: Sequence[Step[State]], states: Sequence[State], answer: Answer, context: StepContext
) -> None:
    """Take states through steps of any kind with the answers of a plan, step by step, so that the order is fixed."""
    for step in steps:
        if isinstance(step, ResourceStep) and not isinstance(step, AskStep):
            await step.run(states, context)
        else:
            run_steps([step], states, answer)
