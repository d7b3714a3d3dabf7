"""The process that asks all models of a sweep: limits, retries and the store are shared because they are its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fdarx_core.llm import Asker, AskingStopped
from fdarx_core.pipeline.control import other_end
from fdarx_core.pipeline.conversation import converse
from fdarx_core.pipeline.outside import Outside, report_to
from fdarx_core.pipeline.stepping import Step
from fdarx_core.pipeline.sweep.sitting import Sitting
from fdarx_core.pipeline.sweep.what import baseline
from fdarx_core.storage import Location


class Interviews:
    """A Ray actor, of which a sweep has one. No sitting waits for another, and no model for another's trouble."""

    def __init__(self, outside: Outside, responses: Location, control: str) -> None:
        self._outside, self._responses = outside, responses
        self._control = other_end(control)
        self._asker: Asker | None = None
        self._reporting: asyncio.Task[None] | None = None

    async def hold(self, steps: Sequence[Step[Sitting]], sittings: Sequence[Sitting]) -> Sequence[Sitting]:
        """The sittings after these steps; those that asking did not last for say in `ended` why."""
        asker = self._open()
        await asyncio.gather(*(self._one(steps, sitting, asker) for sitting in sittings))
        await asker.flush()
        return sittings

    async def _one(self, steps: Sequence[Step[Sitting]], sitting: Sitting, asker: Asker) -> None:
        try:
            await converse(steps, sitting, asker)
        except AskingStopped as error:
            sitting.ended, sitting.put = str(error), []

    def _open(self) -> Asker:
        """Made with the first sittings: an asker belongs to the loop that runs it."""
        if self._asker is None:
            self._asker = self._outside.open(self._responses, baseline())
            self._reporting = asyncio.create_task(report_to(self._control, self._asker))
        return self._asker
