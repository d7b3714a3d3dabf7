"""The process that answers all questions in all ways: limits and the store are shared because they are its own."""

from __future__ import annotations

import asyncio

import ray

from fdarx_core.llm import Asker, AskingStopped
from fdarx_core.pipeline.control import other_end
from fdarx_core.pipeline.outside import report_to
from fdarx_core.pipeline.planning import Planned, Tally
from fdarx_core.pipeline.rag.parts import RagParts
from fdarx_core.pipeline.rag.rows import answer_row, failed_for_now, judged
from fdarx_core.pipeline.rag.tools import Asks, Holders, JobTools, Noting, Once
from fdarx_core.pipeline.rag.what import RagSweep, Way, baseline
from fdarx_core.rag.flow import answer, find
from fdarx_core.rag.titles import title_rank
from fdarx_core.records import RagAnswer, RagQuestion, RagScore, Response, TitleRank
from fdarx_core.storage import Location


class Talks:
    """A Ray actor, of which a comparison has one. No question waits for another, and no way for another's answer."""

    def __init__(self, parts: RagParts, sweep: RagSweep, responses: Location, control: str, holders: Holders) -> None:
        self._parts, self._sweep, self._responses, self._holders = parts, sweep, responses, holders
        self._control = other_end(control)
        self._asker: Asker | None = None
        self._reporting: asyncio.Task[None] | None = None

    async def hold(self, part: int) -> str:
        """Answer a part in every way, judge it and write it down; returns what ended asking, or ""."""
        asker = self._open()
        questions = self._parts.questions(part)
        try:
            made = await asyncio.gather(*(self._question(one, asker) for one in questions))
        except AskingStopped as error:
            return str(error)
        await asker.flush()
        rows = [row for of_question, _ in made for row in of_question]
        if self._holders.similarity:
            rows = await ray.get_actor(self._holders.similarity).measure.remote(rows, questions)
        whole = not any(failed_for_now(*row) for row in rows)
        ranks = [rank for _, found in made for rank in found]
        self._parts.write(part, [row for row, _ in rows], [score for _, score in rows], ranks, whole)
        return ""

    async def close(self) -> None:
        """Stop telling the driver how asking goes, and close connections."""
        if self._asker is not None and self._reporting is not None:
            self._reporting.cancel()
            await self._asker.close()
            await asyncio.wait([self._reporting])

    async def plan(self, part: int) -> list[Planned]:
        """What answering and judging a part would ask, without asking."""
        tally = Tally(baseline(), self._sweep.models)
        await asyncio.gather(*(self._question(one, Noting(tally)) for one in self._parts.questions(part)))
        return tally.planned

    async def _question(
        self, question: RagQuestion, asker: Asks
    ) -> tuple[list[tuple[RagAnswer, RagScore]], list[TitleRank]]:
        once = Once()
        ways = [self._way(question, way, self._tools(asker, once)) for way in self._sweep.ways]
        return list(await asyncio.gather(*ways)), await self._ranks(question, self._tools(asker, once))

    async def _way(self, question: RagQuestion, way: Way, tools: JobTools) -> tuple[RagAnswer, RagScore]:
        recipe = self._sweep.recipe(way, question)
        finding = await find(question.question, recipe, tools)
        reply = await answer(question.question, finding, tools)
        row = answer_row(question, way, self._sweep.roles["answerer"], finding, reply, tools, self._cost)
        return row, await judged(question, row, tools)

    async def _ranks(self, question: RagQuestion, tools: JobTools) -> list[TitleRank]:
        if not question.title or self._sweep.exclude_own:
            return []
        only, k = self._sweep.only(question), self._sweep.candidates
        ranks = []
        for name in self._sweep.retrievers:
            found = await tools.first(question.question, only, k, name)
            rank = title_rank([one.chunk.title for one in found], question.title)
            ranks.append(TitleRank(question.id, question.cluster, name, rank or 0))
        return ranks

    def _tools(self, asker: Asks, once: Once) -> JobTools:
        return JobTools(self._sweep, asker, self._holders, once)

    def _open(self) -> Asker:
        """Made with the first part: an asker belongs to the loop that runs it."""
        if self._asker is None:
            self._asker = self._sweep.outside.open(self._responses, baseline())
            self._reporting = asyncio.create_task(report_to(self._control, self._asker))
        return self._asker

    def _cost(self, response: Response) -> float:
        """US dollars, 0 for whom no prices are known."""
        model = self._sweep.models.get(response.endpoint)
        return model.prices.cost(response) if model and model.prices else 0.0
