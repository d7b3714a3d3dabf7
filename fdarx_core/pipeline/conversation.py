"""The part of the flow that talks to models: every label is a conversation of its own, all of them share the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pyarrow as pa

from fdarx_core.llm import Asker, AskingStopped
from fdarx_core.pipeline.blocks import each_row_async
from fdarx_core.pipeline.control import other_end
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.pipeline.outside import Outside
from fdarx_core.pipeline.plan import baseline
from fdarx_core.pipeline.reported import ReportedAsker
from fdarx_core.pipeline.stepping import Asking, File, Step
from fdarx_core.storage import Location


async def converse(steps: Sequence[Step[File]], file: File, asker: Asker) -> None:
    """Take one label's work through the steps, asking as it goes."""
    for step in steps:
        if isinstance(step, Asking):
            requests = step.requests(file)
            responses = await asker.ask(requests)
            step.take(file, list(zip(requests, responses, strict=True)))
        else:
            step(file)


class Conversation:
    """A Ray Data operator, of which a run has one: limits, retries and the store are shared because they are its own.

    Blocks come concurrently; no label waits for another, in its block or beside it.
    """

    def __init__(self, steps: Sequence[Step[Dossier]], outside: Outside, responses: Location, control: str) -> None:
        self._steps = steps
        self._control = other_end(control)
        self._asker = ReportedAsker(outside, responses, baseline(), control)

    async def __call__(self, block: pa.Table) -> pa.Table:
        """Dossiers in, the same dossiers further on out. Raises AskingStopped when asking has ended early."""
        asker = self._asker.open()
        return await each_row_async(block, lambda dossiers: self._converse_all(dossiers, asker))

    async def _converse_all(self, dossiers: Sequence[Dossier], asker: Asker) -> Sequence[Dossier]:
        try:
            await asyncio.gather(*(converse(self._steps, dossier, asker) for dossier in dossiers))
        except AskingStopped as error:
            await self._control.note_end.remote(str(error))
            raise
        await asker.flush()
        return dossiers
