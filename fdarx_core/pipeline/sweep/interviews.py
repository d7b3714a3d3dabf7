"""The process that asks all models of a sweep: limits, retries and the store are shared because they are its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fdarx_core.llm import Asker, AskingStopped
from fdarx_core.pipeline.conversation import converse
from fdarx_core.pipeline.outside import Outside
from fdarx_core.pipeline.reported import ReportedAsker
from fdarx_core.pipeline.stepping import Step
from fdarx_core.pipeline.sweep.sitting import Sitting
from fdarx_core.pipeline.sweep.what import baseline
from fdarx_core.storage import Location


class Interviews:
    """A Ray actor, of which a sweep has one. No sitting waits for another, and no model for another's trouble."""

    def __init__(self, outside: Outside, responses: Location, control: str) -> None:
        self._asker = ReportedAsker(outside, responses, baseline(), control)

    async def hold(self, steps: Sequence[Step[Sitting]], sittings: Sequence[Sitting]) -> Sequence[Sitting]:
        """The sittings after these steps; those that asking did not last for say in `ended` why."""
        asker = self._asker.open()
        await asyncio.gather(*(self._one(steps, sitting, asker) for sitting in sittings))
        await asker.flush()
        return sittings

    async def _one(self, steps: Sequence[Step[Sitting]], sitting: Sitting, asker: Asker) -> None:
        try:
            await converse(steps, sitting, asker)
        except AskingStopped as error:
            sitting.ended, sitting.put = str(error), []
