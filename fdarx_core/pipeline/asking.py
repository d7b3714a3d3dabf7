"""The process that asks: one set of clients, limits and one response store for all parts of a run. It knows no Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from fdarx_core.llm import Asker, AsyncEndpoint, Baseline, Counters, HttpEndpoint, ModelConfig, ResponseStore
from fdarx_core.pipeline.planning import PlanRow, Tally
from fdarx_core.pipeline.steps import Part, ResourceStep, Stage, Step, StepContext, run_steps, run_steps_async
from fdarx_core.records import Request, Response
from fdarx_core.storage import Location

State = TypeVar("State")

_REPORT_EVERY_S = 0.5
_GRACE_S = 20.0
"""Seconds that requests in flight have to finish once asking stops."""


@dataclass(frozen=True, slots=True)
class ClientPool:
    """The models to ask, and how much may be asked of all of them. `shared_fate` is as in `Asker`.

    `rules` answer what is asked of the built-in baseline. `others` make clients of servers that are no models, such as
    PubMed, in the process that asks.
    """

    rules: Baseline
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    max_requests: int | None = None
    max_cost: float | None = None
    shared_fate: bool = True
    others: Sequence[Callable[[], AsyncEndpoint]] = ()

    @property
    def asks(self) -> bool:
        """Whether any server is asked at all."""
        return bool(self.models or self.others)

    def open(self, responses: Location, watch: Callable[[Mapping[str, Counters]], None] = lambda _: None) -> Asker:
        """Return an Asker for the running event loop that keeps responses under `responses`."""
        servers: list[AsyncEndpoint] = [*map(HttpEndpoint, self.models.values()), *(make() for make in self.others)]
        endpoints: dict[str, AsyncEndpoint | Baseline] = {server.name: server for server in servers}
        # The store is opened anew: a process that is restarted must know what was answered in the meantime.
        return Asker(
            endpoints | {self.rules.name: self.rules},
            ResponseStore(responses),
            max_requests=self.max_requests,
            max_cost=self.max_cost,
            grace_s=_GRACE_S,
            shared_fate=self.shared_fate,
            watch=watch,
        )


@dataclass(slots=True)
class AskProgress:
    """The state of asking at one moment, summed over endpoints; `cost` in USD.

    `stopped` says that nothing more is asked, and that all that was in flight is stored.
    """

    done: int = 0
    in_flight: int = 0
    retries: int = 0
    cost: float = 0.0
    stopped: bool = False

    @classmethod
    def of(cls, asker: Asker) -> AskProgress:
        counters = asker.counters.values()
        return cls(
            done=sum(one.done for one in counters),
            in_flight=sum(one.in_flight for one in counters),
            retries=sum(one.retries for one in counters),
            cost=asker.cost,
        )


Report: TypeAlias = Callable[[AskProgress], Awaitable[bool]]
"""Tells the driver of a run how far asking is; returns whether asking is to stop."""

Call: TypeAlias = Callable[..., Awaitable[Any]]
"""`call(resource, method, *arguments)` calls a method of a resource, wherever it is held."""


class AskSession:
    """Runs the asking segment of parts in one event loop; many parts may be in progress at once."""

    def __init__(
        self,
        clients: ClientPool,
        responses: Location,
        report: Report,
        call: Call,
        watch: Callable[[Mapping[str, Counters]], None] = lambda _: None,
    ) -> None:
        self._clients, self._responses, self._watch = clients, responses, watch
        self._report, self._call = report, call
        self._asker: Asker | None = None
        self._reporting: asyncio.Task[None] | None = None

    async def run(self, steps: Sequence[Step[State]], states: Sequence[State]) -> str:
        """Take the states of a part through steps; returns why asking ended early, or "". Responses are stored then."""
        if self._asker is None:
            self._asker = self._clients.open(self._responses, self._watch)
            self._reporting = asyncio.create_task(self._keep_reporting(self._asker))
        ended = await run_steps_async(steps, states, StepContext(self._asker.ask, self._call))
        await self._asker.flush()
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
