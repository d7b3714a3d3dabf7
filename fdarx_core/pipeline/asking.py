"""The process that asks: one set of clients, limits and one response store for all parts of a run. It knows no Ray.

A plan says what a run would ask, before it asks. The built-in rules answer in place of models, so that later steps have
work; how many tokens a prefix cache would save is counted along.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

from fdarx_core.llm import (
    Asker,
    AskingStopped,
    AsyncEndpoint,
    Baseline,
    BatchEndpoint,
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
from fdarx_core.llm.leased_limits import LimitLeases
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
class Tally:
    """Answers as the rules would, and notes what a model in their place would read and write.

    A request of a task without rules gets the longest reply among the examples of its prompt.
    """

    rules: Baseline
    models: Mapping[str, ModelConfig]
    planned: list[PlanRow] = field(default_factory=list)
    before: dict[str, Counted] = field(default_factory=dict)

    def __call__(self, requests: Sequence[Request]) -> list[Response]:
        responses = [
            self.rules.answer([one])[0] if one.task in self.rules.tasks else response_to(one, _usual_reply(one))
            for one in requests
        ]
        self.planned += [self._count(*pair) for pair in zip(requests, responses, strict=True)]
        return responses

    def note(self, requests: Sequence[Request]) -> None:
        """Record requests to an endpoint that reads no tokens."""
        self.planned += map(_row, requests)

    def _count(self, request: Request, response: Response) -> PlanRow:
        row, model = _row(request), self.models.get(request.endpoint)
        if model is not None:  # rules read no tokens
            counter, _ = token_counter(model)
            row.prompt_tokens, row.shared_tokens = count_prompt(
                self.before, request.endpoint, request.messages, counter
            )
            row.completion_tokens = counter(response.text)
            limit = model.context_length
            row.too_long = int(limit is not None and row.prompt_tokens + model.max_tokens > limit)
        return row


def _usual_reply(request: Request) -> str:
    """Return a reply of about the usual length: the longest of the prompt's examples, else some words."""
    examples = (one["content"] for one in request.messages if one["role"] == "assistant")
    return max(examples, key=len, default=_USUAL_REPLY)


def _row(request: Request) -> PlanRow:
    return PlanRow(request.task, request.endpoint, requests=1, key=int(request.key[:16], 16))


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
    return sum(tokens for _, tokens in now), _shared(last, now, counter)


def add_up(parts: Iterable[Sequence[PlanRow]], models: Mapping[str, ModelConfig]) -> list[PlanRow]:
    """Return one row per task and endpoint, in the order of the tasks, with its cost.

    Identical requests are sent once, so they are counted once.
    """
    sums: dict[tuple[str, str], PlanRow] = {}
    seen: set[int] = set()
    for one in (one for part in parts for one in part):
        row = sums.setdefault((one.task, one.endpoint), PlanRow(one.task, one.endpoint))
        if one.key not in seen:
            seen.add(one.key)
            row.requests += one.requests
            row.prompt_tokens += one.prompt_tokens
            row.shared_tokens += one.shared_tokens
            row.completion_tokens += one.completion_tokens
            row.too_long += one.too_long
    for row in sums.values():
        price(row, models.get(row.endpoint))
    return list(sums.values())


def price(row: PlanRow, model: ModelConfig | None) -> None:
    """Set the cost of a row by the prices of its model; None is the built-in rules, which cost nothing."""
    if model is None:
        return
    _, row.exact = token_counter(model)
    if model.prices is not None:
        counted = Response("", row.task, 0, row.endpoint, "")
        counted.prompt_tokens, counted.completion_tokens = row.prompt_tokens, row.completion_tokens
        row.cost = model.prices.cost(counted)
        if takes_batches(model):
            counted.batched = True
            row.batch_cost = model.prices.cost(counted)


def _shared(before: Counted, now: Counted, counter: TokenCounter) -> int:
    shared = 0
    for (old, _), (new, tokens) in zip(before, now, strict=False):
        if old != new:
            return shared + counter(new[: agreement(old, new)])
        shared += tokens
    return shared


def agreement(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


State = TypeVar("State")

_REPORT_EVERY_S = 0.5
_COLLECTOR_THRESHOLDS = (500_000, 20, 50)
_GRACE_S = 20.0
"""Seconds that requests in flight have to finish once asking stops."""


@dataclass(frozen=True, slots=True)
class ClientPool:
    """The models to ask, and how much may be asked of all of them. `shared_fate` is as in `Asker`.

    `rules` answer what is asked of the built-in baseline. `others` make clients of servers that are no models, such as
    PubMed, in the process that asks. With `batch`, models whose server has a batch API are asked through it. `sent` and
    `spent` are the requests and US dollars of the phases before, which count towards the limits.
    """

    rules: Baseline
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    max_requests: int | None = None
    max_cost: float | None = None
    shared_fate: bool = True
    others: Sequence[Callable[[], AsyncEndpoint]] = ()
    batch: bool = False
    sent: int = 0
    spent: float = 0.0

    @property
    def asks(self) -> bool:
        """Whether any server is asked at all."""
        return bool(self.models or self.others)

    def open(
        self,
        responses: Location,
        watch: Callable[[Mapping[str, Counters]], None] = lambda _: None,
        share: Callable[[Mapping[str, AsyncEndpoint]], LimitLeases] | None = None,
    ) -> Asker:
        """Return an Asker for the running event loop that keeps responses under `responses`.

        `share` replaces the limits of the servers, and of the run, by those that processes share.
        """
        records, requests = batch_records(responses), BatchedRequests()
        servers: list[AsyncEndpoint] = [
            BatchEndpoint(model, records, requests) if self.batch and takes_batches(model) else HttpEndpoint(model)
            for model in self.models.values()
        ]
        servers += [make() for make in self.others]
        endpoints: dict[str, AsyncEndpoint | Baseline] = {server.name: server for server in servers}
        leases = share({server.name: server for server in servers}) if share else None
        # The store is opened anew: a process that is restarted must know what was answered in the meantime.
        return Asker(
            endpoints | {self.rules.name: self.rules},
            ResponseStore(responses),
            max_requests=None if leases else self.max_requests,
            max_cost=None if leases else self.max_cost,
            grace_s=_GRACE_S,
            shared_fate=self.shared_fate,
            watch=watch,
            sent=self.sent,
            spent=self.spent,
            leases=leases,
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

    async def missing(model: ModelConfig) -> str:
        endpoint = BatchEndpoint(model, batch_records(responses))
        try:
            return await endpoint.missing_api()
        finally:
            await endpoint.close()

    async def ask_all() -> list[str]:
        return await asyncio.gather(*(missing(model) for model in models if takes_batches(model)))

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
        return cls(
            done=sum(one.done for one in counters),
            in_flight=sum(one.in_flight for one in counters),
            retries=sum(one.retries for one in counters),
            cost=asker.cost,
            batches=asker.batches,
        )

    def __add__(self, other: AskProgress) -> AskProgress:
        """Return the state of two processes that ask; asking has stopped once both have."""
        return AskProgress(
            self.done + other.done,
            self.in_flight + other.in_flight,
            self.retries + other.retries,
            self.cost + other.cost,
            [*self.batches, *other.batches],
            self.stopped and other.stopped,
        )


Report: TypeAlias = Callable[[AskProgress], Awaitable[bool]]
"""Tells the driver of a run how far asking is; returns whether asking is to stop."""

Route: TypeAlias = Callable[[Asker, Sequence[Request]], Awaitable[list[Response]]]
"""Asks requests by an asker of this process, or by that of another process that asks the same ones."""

Call: TypeAlias = Callable[..., Awaitable[Any]]
"""`call(resource, method, *arguments)` calls a method of a resource, wherever it is held."""


class AskSession:
    """Runs the asking segment of parts in one event loop; many parts may be in progress at once.

    `share` is as in `ClientPool.open`; `route` is for processes that share the requests of a run.
    """

    def __init__(
        self,
        clients: ClientPool,
        responses: Location,
        report: Report,
        call: Call,
        watch: Callable[[Mapping[str, Counters]], None] = lambda _: None,
        share: Callable[[Mapping[str, AsyncEndpoint]], LimitLeases] | None = None,
        route: Route = Asker.ask,
    ) -> None:
        self._clients, self._responses, self._watch = clients, responses, watch
        self._report, self._call, self._share, self._route = report, call, share, route
        self._asker: Asker | None = None
        self._reporting: asyncio.Task[None] | None = None

    async def run(self, steps: Sequence[Step[State]], states: Sequence[State]) -> str:
        """Take the states of a part through steps; returns why asking ended early, or "". Responses are stored then."""
        asker = self._opened()
        with span("ask", {"fdarx.rows": len(states)}):
            ended = await run_steps_async(steps, states, StepContext(partial(self._route, asker), self._call))
        await asker.flush()
        return ended

    async def answer(self, requests: Sequence[Request]) -> tuple[list[Response], str]:
        """Return the responses to requests of another process, and why asking ended early, or ""."""
        try:
            return await self._opened().ask(requests), ""
        except AskingStopped as error:
            return [], str(error)

    async def close(self) -> None:
        """Stop reporting, and close connections."""
        if self._asker is not None and self._reporting is not None:
            self._reporting.cancel()
            await self._asker.close()
            await asyncio.wait([self._reporting])

    def _opened(self) -> Asker:
        if self._asker is None:
            self._asker = self._clients.open(self._responses, self._watch, self._share)
            self._reporting = asyncio.create_task(self._keep_reporting(self._asker))
        return self._asker

    async def _keep_reporting(self, asker: Asker) -> None:
        while True:
            asker.report()
            if await self._report(AskProgress.of(asker)):
                break
            await asyncio.sleep(_REPORT_EVERY_S)
        await asker.stop()
        last = AskProgress.of(asker)
        last.stopped = True
        await self._report(last)


async def plan_part(stage: Stage[Any], part: Part, clients: ClientPool, call: Call) -> list[PlanRow]:
    """Return what a part would ask, without asking or writing: the built-in rules answer.

    The part goes through the stage step by step, so that the order is fixed.
    """
    tally = Tally(clients.rules, clients.models)

    async def answer(requests: Sequence[Request]) -> list[Response]:
        return tally(requests)

    states = stage.read(part)
    for step in stage.steps:
        if isinstance(step, ResourceStep):
            await step.run(states, StepContext(answer, call, tally.note))
        else:
            run_steps([step], states, tally)
    return tally.planned
