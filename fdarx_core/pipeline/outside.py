"""What an asking process needs of the world, and how it tells the driver how asking goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.llm import Asker, Baseline, HttpEndpoint, ModelConfig, ResponseStore, Server
from fdarx_core.pipeline.control import Asked
from fdarx_core.pipeline.meters import AskingMeter
from fdarx_core.storage import Location

_REPORT_EVERY_S = 0.5
_GRACE_S = 20.0


@dataclass(frozen=True, slots=True)
class Outside:
    """Whom to ask, and how much may be asked of all of them. `shared_fate` is as in `Asker`.

    `others` make what is asked beside models, such as a search of PubMed, where asking is done.
    """

    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    max_requests: int | None = None
    max_cost: float | None = None
    shared_fate: bool = True
    others: Sequence[Callable[[], Server]] = ()

    def open(self, responses: Location, rules: Baseline) -> Asker:
        """To be called in the event loop that will ask; `responses` is where answers are kept."""
        servers: list[Server] = [*map(HttpEndpoint, self.models.values()), *(make() for make in self.others)]
        endpoints: dict[str, Server | Baseline] = {server.name: server for server in servers}
        # The store is opened anew: a process that is restarted must know what was answered meanwhile.
        return Asker(
            endpoints | {rules.name: rules},
            ResponseStore(responses),
            max_requests=self.max_requests,
            max_cost=self.max_cost,
            grace_s=_GRACE_S,
            shared_fate=self.shared_fate,
            watch=AskingMeter(responses.parent.name),
        )


async def report_to(control: Any, asker: Asker) -> None:
    """Tell the driver, until it wants asking to stop; then stop, and say so."""
    while True:
        asker.tell()
        counters = asker.counters.values()
        asked = Asked(
            done=sum(one.done for one in counters),
            in_flight=sum(one.in_flight for one in counters),
            retries=sum(one.retries for one in counters),
            cost=asker.cost,
        )
        if await control.report.remote(asked):
            await asker.stop()
            await control.note_stopped.remote()
            return
        await asyncio.sleep(_REPORT_EVERY_S)
