"""The process that asks: one set of clients, limits and one response store for all parts of a run. It knows no Ray.

A plan says what a run would ask, before it asks. The built-in rules answer in place of models, so that later steps have
work; how many tokens a prefix cache would save is counted along.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from rapidfuzz.distance import Prefix

from fdarx_core.llm import (
    Asker,
    AsyncEndpoint,
    Baseline,
    BatchEndpoint,
    BatchFileEndpoint,
    BatchRecords,
    Counters,
    HttpEndpoint,
    ModelConfig,
    ModelsError,
    ResponseStore,
)
from fdarx_core.llm.baseline import response_to
from fdarx_core.llm.batch_endpoint import BatchedRequests
from fdarx_core.llm.batch_formats import BATCH_FORMATS
from fdarx_core.llm.model_config import FRAME_TOKENS, TokenCounter, token_counter
from fdarx_core.pipeline.steps import Part, ResourceStep, Stage, Step, StepContext, run_steps, run_steps_async
from fdarx_core.records import Request, Response
from fdarx_core.storage import Location
from fdarx_core.telemetry import span

_USUAL_REPLY = "word " * 60
"""Stands in a plan for the reply to a task whose prompt shows no example."""


@dataclass(slots=True)
class PlanRow:
    """One request, told apart by its `key`, or the sum of all of one task at one endpoint.

    Tokens are estimates unless `exact`; `cost` is in USD, None without prices. `shared_tokens` are those of the
    prompts with which the prompt before begins as well, so that a server that caches prefixes need not compute them;
    `cost` counts them as all others. `batch_cost` is the cost by the vendor's batch API, None where it is not used.
    `too_long` counts the requests whose prompt and longest reply exceed the model's `context_length`.
    """

    task: str
    endpoint: str
    requests: int = 0
    prompt_tokens: int = 0
    shared_tokens: int = 0
    completion_tokens: int = 0
    exact: bool = False
    cost: float | None = None
    batch_cost: float | None = None
    too_long: int = 0
    key: int = 0


Counted: TypeAlias = Sequence[tuple[str, int]]
"""The texts of a prompt's messages, each with its tokens, the template's marks included."""


@dataclass(slots=True)
class _Tally:
    """Answers as the rules would, and notes what a model in their place would read and write.

    A request of a task without rules gets the longest reply among the examples of its prompt.
    """

    rules: Baseline
    models: Mapping[str, ModelConfig]
    planned: list[PlanRow] = field(default_factory=list)
    before: dict[str, Counted] = field(default_factory=dict)

    def __call__(self, requests: Sequence[Request]) -> list[Response]:
        responses = []
        for request in requests:
            if request.task in self.rules.tasks:
                responses += self.rules.answer([request])
            else:
                examples = (message["content"] for message in request.messages if message["role"] == "assistant")
                responses.append(response_to(request, max(examples, key=len, default=_USUAL_REPLY)))
            self.note([request])
            row, model = self.planned[-1], self.models.get(request.endpoint)
            if model is not None:  # rules read no tokens
                counter, _ = token_counter(model)
                counted = count_prompt(self.before, request.endpoint, request.messages, counter)
                row.prompt_tokens, row.shared_tokens = counted
                row.completion_tokens = counter(responses[-1].text)
                limit = model.context_length
                row.too_long = int(limit is not None and row.prompt_tokens + model.max_tokens > limit)
        return responses

    def note(self, requests: Sequence[Request]) -> None:
        """Record requests, without the tokens that a model reads and writes."""
        for request in requests:
            key = int(request.key[:16], 16)
            self.planned.append(PlanRow(request.task, request.endpoint, requests=1, key=key))


def count_prompt(
    before: dict[str, Counted], endpoint: str, messages: Sequence[dict[str, str]], counter: TokenCounter
) -> tuple[int, int]:
    """Return the tokens of the next prompt, and how many of them the previous prompt begins with too.

    `before` holds the prompt before by endpoint; this one takes its place.
    """
    last = before.get(endpoint, ())
    known = dict(last)  # so that a label that stands in forty prompts is counted once
    texts = [message["content"] for message in messages]
    now = [(text, known[text] if text in known else counter(text) + FRAME_TOKENS) for text in texts]
    before[endpoint] = now
    shared = 0
    for (old, _), (new, tokens) in zip(last, now, strict=False):
        if old != new:
            shared += counter(new[: Prefix.similarity(old, new)])
            break
        shared += tokens
    return sum(tokens for _, tokens in now), shared


def add_up(parts: Iterable[Sequence[PlanRow]], models: Mapping[str, ModelConfig]) -> list[PlanRow]:
    """Return one row per task and endpoint, in the order of the tasks, with its cost.

    Identical requests are sent once, so they are counted once.
    """
    sums: dict[tuple[str, str], PlanRow] = {}
    seen: set[int] = set()
    for planned in chain.from_iterable(parts):
        row = sums.setdefault((planned.task, planned.endpoint), PlanRow(planned.task, planned.endpoint))
        if planned.key not in seen:
            seen.add(planned.key)
            for name in ("requests", "prompt_tokens", "shared_tokens", "completion_tokens", "too_long"):
                setattr(row, name, getattr(row, name) + getattr(planned, name))
    for row in sums.values():
        if (model := models.get(row.endpoint)) is None:
            continue  # the built-in rules cost nothing
        _, row.exact = token_counter(model)
        if model.prices is not None:
            counted = Response("", row.task, 0, row.endpoint, "")
            counted.prompt_tokens, counted.completion_tokens = row.prompt_tokens, row.completion_tokens
            row.cost = model.prices.cost(counted)
            if takes_batches(model):
                counted.batched = True
                row.batch_cost = model.prices.cost(counted)
    return list(sums.values())


State = TypeVar("State")

_REPORT_EVERY_S = 0.5
_COLLECTOR_THRESHOLDS = (500_000, 20, 50)
_GRACE_S = 20.0
"""Seconds that requests in flight have to finish once asking stops."""


@dataclass(frozen=True, slots=True)
class ClientPool:
    """The models to ask, and how much may be asked of all of them. `shared_fate` is as in `Asker`.

    `rules` answer what is asked of the built-in baseline. `others` make clients of servers that are no models, such as
    PubMed, in the process that asks. With `batch`, models whose server has a batch API are asked through it, and with
    `batch_files` through files in that folder. `sent` and
    `spent` are the requests and US dollars of the phases before, which count towards the limits.
    """

    rules: Baseline
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    max_requests: int | None = None
    max_cost: float | None = None
    shared_fate: bool = True
    others: Sequence[Callable[[], AsyncEndpoint]] = ()
    batch: bool = False
    batch_files: str | None = None
    sent: int = 0
    spent: float = 0.0

    @property
    def has_budget(self) -> bool:
        """Whether requests or cost of the run are limited."""
        return self.max_requests is not None or self.max_cost is not None

    def share(self, processes: int, asked: Collection[str] | None = None) -> ClientPool:
        """Return what each of several processes that ask has: those models of `asked`, with an equal share of limits.

        A budget of the run has no shares.
        """
        shares: dict[str, ModelConfig] = {}
        for name, model in self.models.items():
            if asked is not None and name not in asked:
                continue
            limits: dict[str, Any] = {"max_in_flight": model.max_in_flight // processes}
            for rate in ("requests_per_minute", "tokens_per_minute"):
                limits[rate] = None if getattr(model, rate) is None else getattr(model, rate) / processes
            shares[name] = model.model_copy(update=limits)
        return replace(self, models=shares)

    def open(self, responses: Location, watch: Callable[[Mapping[str, Counters]], None] = lambda _: None) -> Asker:
        """Return an Asker for the running event loop that keeps responses under `responses`."""
        records, requests = batch_records(responses), BatchedRequests()
        # The store is opened anew: a process that is restarted must know what was answered in the meantime.
        store = ResponseStore(responses)
        reached = set(store.usage()["endpoint"].to_pylist()) if self.models else set()
        servers: list[AsyncEndpoint] = [make() for make in self.others]
        for model in self.models.values():
            if self.batch_files and takes_batches(model):
                servers.append(BatchFileEndpoint(model, Location(self.batch_files), ResponseStore(responses).find))
            elif self.batch and takes_batches(model):
                servers.append(BatchEndpoint(model, records, requests))
            else:
                servers.append(HttpEndpoint(model, known=model.name in reached))
        endpoints: dict[str, AsyncEndpoint | Baseline] = {server.name: server for server in servers}
        return Asker(
            endpoints | {self.rules.name: self.rules},
            store,
            max_requests=self.max_requests,
            max_cost=self.max_cost,
            grace_s=_GRACE_S,
            shared_fate=self.shared_fate,
            watch=watch,
            sent=self.sent,
            spent=self.spent,
        )


def collect_garbage_rarely() -> None:
    """Let Python's garbage collector run rarely in this process, which must do nothing else than ask.

    Thousands of requests wait at once, each in dozens of objects. By default the collector visits all of them so often
    that this took about a quarter of the CPU time. Asking leaves next to no garbage that needs the collector.
    """
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)


def takes_batches(model: ModelConfig) -> bool:
    """Return whether a model can be asked through a batch API."""
    return model.batch_api and model.kind in BATCH_FORMATS


def check_batch_apis(models: Iterable[ModelConfig], responses: Location) -> None:
    """Ask the servers of the models that take batches for their batch API. Raises ModelsError where one has none.

    `responses` is where the run keeps its responses; nothing is read or written there.
    """

    async def ask_all() -> list[str]:
        endpoints = [BatchEndpoint(model, batch_records(responses)) for model in models if takes_batches(model)]
        try:
            return await asyncio.gather(*(endpoint.missing_api() for endpoint in endpoints))
        finally:
            await asyncio.gather(*(endpoint.close() for endpoint in endpoints))

    if faults := [fault for fault in asyncio.run(ask_all()) if fault]:
        raise ModelsError(f"{faults[0]}. Nothing was submitted")


def batch_records(responses: Location) -> BatchRecords:
    """Return the records of the batches of a run whose responses are in this folder."""
    return BatchRecords(responses.parent / "batches")


@dataclass(slots=True)
class AskProgress:
    """The state of asking at one moment, summed over endpoints; `cost` in USD; `batches` are the states of batches.

    `stopped` says that nothing more is asked, and that all that was in flight is stored.
    """

    done: int = 0
    in_flight: int = 0
    retries: int = 0
    cost: float = 0.0
    batches: Sequence[str] = ()
    stopped: bool = False

    @classmethod
    def of(cls, asker: Asker) -> AskProgress:
        counters = asker.counters.values()
        sums = {name: sum(getattr(counter, name) for counter in counters) for name in ("done", "in_flight", "retries")}
        return cls(**sums, cost=asker.cost, batches=asker.batches)

    def __add__(self, other: AskProgress) -> AskProgress:
        """Return the state of two processes that ask; asking has stopped once both have."""
        counted = ("done", "in_flight", "retries", "cost")
        sums = {name: getattr(self, name) + getattr(other, name) for name in counted}
        return AskProgress(**sums, batches=[*self.batches, *other.batches], stopped=self.stopped and other.stopped)


Report: TypeAlias = Callable[[AskProgress], Awaitable[bool]]
"""Tells the driver of a run how far asking is; returns whether asking is to stop."""

ResourceCaller: TypeAlias = Callable[..., Awaitable[Any]]
"""`call(resource, method, *arguments)` calls a method of a resource, wherever it is held."""


@dataclass(slots=True)
class AskSession:
    """Runs the asking segment of parts in one event loop; many parts may be in progress at once."""

    clients: ClientPool
    responses: Location
    report: Report
    call: ResourceCaller
    watch: Callable[[Mapping[str, Counters]], None] = lambda _: None
    _asker: Asker | None = field(default=None, init=False)
    _reporting: asyncio.Task[None] | None = field(default=None, init=False)

    async def run(self, steps: Sequence[Step[State]], states: Sequence[State]) -> str:
        """Take the states of a part through steps; returns why asking ended early, or "". Responses are stored then."""
        if self._asker is None:
            self._asker = self.clients.open(self.responses, self.watch)
            self._reporting = asyncio.create_task(self._keep_reporting(self._asker))
        asker = self._asker
        with span("ask", {"fdarx.rows": len(states)}):
            ended = await run_steps_async(steps, states, StepContext(asker.ask, self.call))
        await asker.flush()
        return ended

    async def close(self) -> None:
        """Stop reporting, and close connections."""
        if self._asker is not None and self._reporting is not None:
            self._reporting.cancel()
            await self._asker.close()
            await asyncio.wait([self._reporting])

    async def _keep_reporting(self, asker: Asker) -> None:
        while True:
            asker.report()
            if await self.report(AskProgress.of(asker)):
                break
            await asyncio.sleep(_REPORT_EVERY_S)
        await asker.stop()
        await self.report(replace(AskProgress.of(asker), stopped=True))


async def plan_part(stage: Stage[Any], part: Part, clients: ClientPool, call: ResourceCaller) -> list[PlanRow]:
    """Return what a part would ask, without asking or writing: the built-in rules answer.

    The part goes through the stage step by step, so that the order is fixed.
    """
    tally = _Tally(clients.rules, clients.models)

    async def answer(requests: Sequence[Request]) -> list[Response]:
        return tally(requests)

    states = stage.read(part)
    for step in stage.steps:
        if isinstance(step, ResourceStep):
            await step.run(states, StepContext(answer, call, tally.note))
        else:
            run_steps([step], states, tally)
    return tally.planned
