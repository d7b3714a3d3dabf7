"""The part of the flow that talks to models: every label is a conversation of its own, all of them share the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from fdarx_core.llm import ResponseStore
from fdarx_core.llm.asker import Asker
from fdarx_core.llm.exchange import AskingStopped
from fdarx_core.llm.http_endpoint import HttpEndpoint
from fdarx_core.llm.models import ModelConfig
from fdarx_core.pipeline.blocks import each_row_async
from fdarx_core.pipeline.control import Asked
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.pipeline.plan import baseline
from fdarx_core.pipeline.steps import Asking, Step

_REPORT_EVERY_S = 0.5
_GRACE_S = 20.0


@dataclass(frozen=True, slots=True)
class Outside:
    """What a conversation needs of the world: models to ask, where answers are kept, how much may be asked."""

    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    max_requests: int | None = None
    max_cost: float | None = None


async def converse(steps: Sequence[Step], dossier: Dossier, asker: Asker) -> None:
    """Take one dossier through the steps, asking as it goes."""
    for step in steps:
        if isinstance(step, Asking):
            requests = step.requests(dossier)
            responses = await asker.ask(requests)
            step.take(dossier, list(zip(requests, responses, strict=True)))
        else:
            step(dossier)


class Conversation:
    """A Ray Data operator, of which a run has one: limits, retries and the store are shared because they are its own.

    Blocks come concurrently; no label waits for another, in its block or beside it.
    """

    def __init__(self, steps: Sequence[Step], outside: Outside, store: ResponseStore, control: Any) -> None:
        self._steps = steps
        self._outside = outside
        # Its index is read anew: a process that is restarted must know what was answered meanwhile.
        self._store = ResponseStore(store.root)
        self._control = control
        self._asker: Asker | None = None
        self._reporting: asyncio.Task[None] | None = None

    async def __call__(self, block: pa.Table) -> pa.Table:
        """Dossiers in, the same dossiers further on out. Raises AskingStopped when asking has ended early."""
        asker = self._open()
        return await each_row_async(block, lambda dossiers: self._converse_all(dossiers, asker))

    async def _converse_all(self, dossiers: Sequence[Dossier], asker: Asker) -> Sequence[Dossier]:
        try:
            await asyncio.gather(*(converse(self._steps, dossier, asker) for dossier in dossiers))
        except AskingStopped as error:
            await self._control.note_end.remote(str(error))
            raise
        await asker.flush()
        return dossiers

    def _open(self) -> Asker:
        """Made with the first block: an asker belongs to the loop that runs it."""
        if self._asker is None:
            servers = {name: HttpEndpoint(model) for name, model in self._outside.models.items()}
            rules = baseline()
            self._asker = Asker(
                {**servers, rules.name: rules},
                self._store,
                max_requests=self._outside.max_requests,
                max_cost=self._outside.max_cost,
                grace_s=_GRACE_S,
            )
            self._reporting = asyncio.create_task(self._report(list(servers.values()), self._asker))
        return self._asker

    async def _report(self, servers: Sequence[HttpEndpoint], asker: Asker) -> None:
        while True:
            asked = Asked(
                done=sum(one.counters.done for one in servers),
                in_flight=sum(one.counters.in_flight for one in servers),
                retries=sum(one.counters.retries for one in servers),
                cost=asker.cost,
            )
            if await self._control.report.remote(asked):
                await asker.stop()
                await self._control.note_stopped.remote()
                return
            await asyncio.sleep(_REPORT_EVERY_S)
