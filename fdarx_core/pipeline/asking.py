"""The process that asks: one set of clients, limits and one response store for all parts of a run. It knows no Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from fdarx_core.llm import Asker, AsyncEndpoint, Baseline, Counters, HttpEndpoint, ModelConfig, ResponseStore
from fdarx_core.pipeline.planning import Tally
from fdarx_core.pipeline.steps import Step, StepContext, plan_steps, run_steps_async
from fdarx_core.records import Request, Response
from fdarx_core.storage import Location

State = TypeVar("State")

_REPORT_EVERY_S = 0.5
_GRACE_S = 20.0
"""Seconds that requests in flight have to finish once asking stops."""


@dataclass(frozen=True, slots=True)
class ClientPool:
    """The models to ask, and how much may be asked of all of them. `shared_fate` is as in `Asker`.

    `others` make clients of servers that are no models, such as PubMed, in the process that asks.
    """

    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    max_requests: int | None = None
    max_cost: float | None = None
    shared_fate: bool = True
    others: Sequence[Callable[[], AsyncEndpoint]] = ()

    @property
    def asks(self) -> bool:
        """Whether any server is asked at all."""
        return bool(self.models or self.others)

    def open(
        self, responses: Location, rules: Baseline, watch: Callable[[Mapping[str, Counters]], None] = lambda _: None
    ) -> Asker:
        """Return an Asker for the running event loop that keeps responses under `responses`."""
        servers: list[AsyncEndpoint] = [*map(HttpEndpoint, self.models.values()), *(make() for make in self.others)]
        endpoints: dict[str, AsyncEndpoint | Baseline] = {server.name: server for server in servers}
        # The store is opened anew: a process that is restarted must know what was answered in the meantime.
        return Asker(
            endpoints | {rules.name: rules},
            ResponseStore(responses),
            max_requests=self.max_requests,
            max_cost=self.max_cost,
            grace_s=_GRACE_S,
            shared_fate=self.shared_fate,
            watch=watch,
        )


@dataclass(slots=True)
class AskProgress:
    """The state of asking at one moment, summed over endpoints; `cost` in USD."""

    done: int = 0
    in_flight: int = 0
    retries: int = 0
    cost: float = 0.0

    @classmethod
    def of(cls, asker: Asker) -> AskProgress:
        counters = asker.counters.values()
        return cls(
            done=sum(one.done for one in counters),
            in_flight=sum(one.in_flight for one in counters),
            retries=sum(one.retries for one in counters),
            cost=asker.cost,
        )


class Monitor(Protocol):
    """The driver's side of asking: it hears of progress and may want asking to stop."""

    async def report(self, progress: AskProgress) -> bool:
        """Receive the progress; return whether asking is to stop."""
        ...

    async def note_stopped(self) -> None:
        """Learn that asking has stopped, and that all that was in flight is stored."""
        ...


class AskSession:
    """Runs the asking segment of parts in one event loop; many parts may be in progress at once.

    `call(resource, method, *arguments)` reaches the resources of the stage.
    """

    def __init__(
        self,
        clients: ClientPool,
        responses: Location,
        rules: Baseline,
        monitor: Monitor,
        call: Callable[..., Awaitable[Any]],
        watch: Callable[[Mapping[str, Counters]], None] = lambda _: None,
    ) -> None:
        self._clients, self._responses, self._rules = clients, responses, rules
        self._monitor, self._call, self._watch = monitor, call, watch
        self._asker: Asker | None = None
        self._reporting: asyncio.Task[None] | None = None

    async def run(self, steps: Sequence[Step[State]], states: Sequence[State]) -> str:
        """Take the states of a part through steps; returns why asking ended early, or "". Responses are stored then."""
        asker = self._open()
        ended = await run_steps_async(steps, states, StepContext(asker.ask, self._call))
        await asker.flush()
        return ended

    async def plan(self, steps: Sequence[Step[State]], states: Sequence[State], tally: Tally) -> None:
        """Take the states through steps without asking: the tally answers."""

        async def answer(requests: Sequence[Request]) -> list[Response]:
            return tally(requests)

        await plan_steps(steps, states, tally, StepContext(answer, self._call, tally.note))

    async def close(self) -> None:
        """Stop reporting, and close connections."""
        if self._asker is not None and self._reporting is not None:
            self._reporting.cancel()
            await self._asker.close()
            await asyncio.wait([self._reporting])

    def _open(self) -> Asker:
        if self._asker is None:
            self._asker = self._clients.open(self._responses, self._rules, self._watch)
            self._reporting = asyncio.create_task(self._report(self._asker))
        return self._asker

    async def _report(self, asker: Asker) -> None:
        while True:
            asker.report()
            if await self._monitor.report(AskProgress.of(asker)):
                await asker.stop()
                await self._monitor.note_stopped()
                return
            await asyncio.sleep(_REPORT_EVERY_S)
