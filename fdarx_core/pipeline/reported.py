"""An asker in a process of its own, of which the driver hears how asking goes."""

from __future__ import annotations

import asyncio

from fdarx_core.llm import Asker, Baseline
from fdarx_core.pipeline.control import other_end
from fdarx_core.pipeline.outside import Outside, report_to
from fdarx_core.storage import Location


class ReportedAsker:
    """Made when it is first used: an asker belongs to the loop that runs it. `control` is the name of the line."""

    def __init__(self, outside: Outside, responses: Location, rules: Baseline, control: str) -> None:
        self._outside, self._responses, self._rules = outside, responses, rules
        self._control = other_end(control)
        self._asker: Asker | None = None
        self._reporting: asyncio.Task[None] | None = None

    def open(self) -> Asker:
        """The one asker of the process."""
        if self._asker is None:
            self._asker = self._outside.open(self._responses, self._rules)
            self._reporting = asyncio.create_task(report_to(self._control, self._asker))
        return self._asker

    async def close(self) -> None:
        """Stop telling the driver how asking goes, and close connections."""
        if self._asker is not None and self._reporting is not None:
            self._reporting.cancel()
            await self._asker.close()
            await asyncio.wait([self._reporting])
