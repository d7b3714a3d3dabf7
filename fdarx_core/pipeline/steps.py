"""Steps, and the stages that are made of them. This module does not import Ray; any executor runs the same steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import Any, Generic, TypeAlias, TypeVar

import orjson

from fdarx_core.llm import AskingStopped, Baseline, ModelConfig, Task, Unparsable
from fdarx_core.llm.failures import all_done
from fdarx_core.llm.model_config import vote_parameters
from fdarx_core.records import Request, Response

Item = TypeVar("Item")
Result = TypeVar("Result")
State = TypeVar("State")
"""The data that steps work on: the state of one label, evaluation sample, question or answer."""

Exchange: TypeAlias = tuple[Request, Response]
Asking: TypeAlias = Generator[list[Request], Sequence[Exchange], None]
Answer: TypeAlias = Callable[[Sequence[Request]], list[Response]]


@dataclass(frozen=True, slots=True)
class Address:
    """The endpoint of a request, and the settings of the endpoint that are part of the request's key."""

    name: str
    sampling: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, models: Mapping[str, ModelConfig], rules: Baseline) -> Address:
        """Return the address of one of the models, or of the rules. Raises KeyError for any other name."""
        return cls(name, rules.sampling if name == rules.name else models[name].request_parameters)

    def for_vote(self, vote: int) -> Address:
        """Return the address of the `vote`-th request for the same; all but the first have other keys."""
        return Address(self.name, vote_parameters(self.sampling, vote))

    def request(self, task: Task[Any], slots: Mapping[str, Any]) -> Request:
        """Return the request that asks the endpoint a task. Raises ValueError as `Task.request`."""
        return task.request(slots, endpoint=self.name, sampling=self.sampling)

    def step(self, name: str, ask: Callable[[State], Asking]) -> AskStep[State]:
        """Return a step that asks this endpoint alone; `ask` is as in `AskStep`."""
        return AskStep(name, frozenset((self.name,)), ask)


@dataclass(frozen=True, slots=True)
class AskStep(Generic[State]):
    """A step that asks the `endpoints`; the executor asks where `ask` yields.

    `ask` yields what to ask about a state, once, and gets each request with its response, in the same order. It may
    also end without asking anything.
    """

    name: str
    endpoints: frozenset[str]
    ask: Callable[[State], Asking]


@dataclass(frozen=True, slots=True)
class StepContext:
    """The functions that a resource step may use.

    Args:
        ask: Returns one response per request, in order; raises AskingStopped. In a plan the built-in rules answer.
        call: `call(resource, method, *arguments)` calls a method of a resource of the stage, wherever it is held.
        note: In a plan, records requests to an endpoint that is no model and that a plan does not ask; else None.
    """

    ask: Callable[[Sequence[Request]], Awaitable[list[Response]]]
    call: Callable[..., Awaitable[Any]]
    note: Callable[[Sequence[Request]], None] | None = None


@dataclass(frozen=True, slots=True)
class ResourceStep(Generic[State]):
    """A step that uses something heavy (a model, an index), or asks several times; it gets all states of a part."""

    name: str
    run: Callable[[Sequence[State], StepContext], Awaitable[None]]


Step: TypeAlias = Callable[[State], None] | AskStep[State] | ResourceStep[State]
"""A plain function changes a state in place. All steps must pickle: make them of functions of modules."""


def step_name(step: Step[Any]) -> str:
    """Return the name under which Ray's dashboard shows a step: its own, or that of the function."""
    if isinstance(step, AskStep | ResourceStep):
        return step.name
    function = getattr(step, "func", step)
    return str(function.__name__)


@dataclass(frozen=True, slots=True)
class Resource:
    """Something heavy that a stage needs, made by `factory(*arguments)`.

    Under Ray, actors hold it: at most `size` of them, as many as there are calls, each with the fraction `gpus` of a
    GPU. `cpus` are the CPUs that Ray reserves for an actor: few by default, so that no CPU is idle while tasks wait.
    """

    factory: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    size: int = 1
    gpus: float = 0.0
    cpus: float = 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows that are made, stored and resumed together. `inputs` are what can't be read back by the number."""

    number: int
    inputs: Any = None


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of `size`; the last may be shorter."""
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


def guarded(function: Callable[..., Result], *arguments: Any) -> Result | str:
    """Return what the function makes of a row, or why it failed: one bad row must not cost its batch."""
    try:
        return function(*arguments)
    except Unparsable as error:
        return f"{error.reason}: {error.detail}"
    except Exception as error:
        return f"rules_error: {type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class Stage(Generic[State]):
    """Rows in parts → steps → rows.

    `read` returns the states of a part. `write` stores what the steps made of them, and returns a small
    account of the part for the driver. Both run where the executor runs steps, so all of this must pickle. `name` tells
    stages apart that run side by side. `window` is the number of parts that are asked about at once.
    """

    name: str
    read: Callable[[Part], Sequence[State]]
    steps: Sequence[Step[State]]
    write: Callable[[int, Sequence[State]], Any]
    window: int = 8

    def models(self, known: Collection[str]) -> list[str]:
        """Return those of the known models that the steps ask, in the order of the steps."""
        asked = [name for step in self.steps if isinstance(step, AskStep) for name in sorted(step.endpoints)]
        return [name for name in dict.fromkeys(asked) if name in known]


def cut_steps(steps: Sequence[Step[State]], models: Collection[str]) -> tuple[Sequence[Step[State]], ...]:
    """Cut steps in three: before, asking, after. `models` are the endpoints that are not the built-in baseline.

    Only the steps of the middle, from the first to the last that asks a model or uses a resource, need an event loop,
    clients and resources.
    """
    waiting = [
        place
        for place, step in enumerate(steps)
        if isinstance(step, ResourceStep) or (isinstance(step, AskStep) and step.endpoints & set(models))
    ]
    if not waiting:
        return steps, (), ()
    first, last = waiting[0], waiting[-1] + 1
    return steps[:first], steps[first:last], steps[last:]


def asking_spans(steps: Sequence[Step[Any]], models: Collection[str]) -> list[tuple[int, int]]:
    """Return where steps ask models, as the first place and the one after the last, so that no two spans share a model.

    A process that runs the steps of a span then keeps the limits of its models alone.
    """
    asked = [step.endpoints & set(models) if isinstance(step, AskStep) else frozenset() for step in steps]
    spans: list[tuple[int, int]] = []
    for place, names in enumerate(asked):
        last = max((at for at, others in enumerate(asked) if names & others), default=-1) + 1
        if names and spans and place < spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], last)
        elif names:
            spans.append((place, last))
    return spans


def run_steps(steps: Sequence[Step[State]], states: Sequence[State], answer: Answer) -> list[State]:
    """Take states through steps of which none uses a resource; the requests of one step go out together."""
    for step in steps:
        if isinstance(step, AskStep):
            begun = [step.ask(state) for state in states]
            requests = [next(asking, []) for asking in begun]
            responses = iter(answer(list(chain.from_iterable(requests))))
            for asking, asked in zip(begun, requests, strict=True):
                _resume(asking, [(request, next(responses)) for request in asked])
        else:
            for state in states:
                step(state)  # type: ignore[operator]
    return list(states)


def _resume(asking: Asking, exchanges: Sequence[Exchange]) -> None:
    """Give a step the responses to its requests; it then comes to its end."""
    with suppress(StopIteration):
        asking.send(exchanges)


async def run_steps_async(steps: Sequence[Step[State]], states: Sequence[State], context: StepContext) -> str:
    """Take states through steps of any kind, as they ask and wait; no state waits for another, except at resource
    steps, which get all of them. Returns why asking ended early, or ""; the states are then of no use."""
    try:
        for together, group in groupby(steps, key=lambda step: isinstance(step, ResourceStep)):
            if together:
                for step in group:
                    await step.run(states, context)  # type: ignore[union-attr]
            else:
                own = list(group)
                await all_done(_run_one(own, state, context) for state in states)
    except AskingStopped as error:
        return str(error)
    return ""


def _share_parts(requests: Sequence[Request]) -> None:
    """Let equal texts of messages and equal lists among slots be the same objects.

    Requests that wait on the same label then hold its text only once.
    """
    parts: dict[Any, Any] = {}
    for request in requests:
        for message in request.messages:
            message["content"] = parts.setdefault(message["content"], message["content"])
        for name, value in request.slots.items():
            if isinstance(value, list):
                request.slots[name] = parts.setdefault(orjson.dumps(value), value)


async def _run_one(steps: Sequence[Step[State]], state: State, context: StepContext) -> None:
    for step in steps:
        if isinstance(step, AskStep):
            asking = step.ask(state)
            requests = next(asking, [])
            _share_parts(requests)
            responses = await context.ask(requests)
            _resume(asking, list(zip(requests, responses, strict=True)))
        else:
            step(state)  # type: ignore[operator]
