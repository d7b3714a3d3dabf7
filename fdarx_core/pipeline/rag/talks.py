"""The process that answers all questions in all ways: limits and the store are shared because they are its own."""

from __future__ import annotations

import asyncio

from fdarx_core.pipeline.parted.worker import Asks, Noting, PartWorker
from fdarx_core.pipeline.planning import Tally
from fdarx_core.pipeline.rag.parts import RagParts
from fdarx_core.pipeline.rag.rows import answer_row, failed_for_now, judged
from fdarx_core.pipeline.rag.tools import Holders, JobTools, Once
from fdarx_core.pipeline.rag.what import RagSweep, Way, baseline
from fdarx_core.rag.flow import answer, find
from fdarx_core.rag.titles import title_rank
from fdarx_core.records import RagAnswer, RagQuestion, RagScore, Response, TitleRank

Answered = tuple[list[tuple[RagAnswer, RagScore]], list[TitleRank]]
"""What was made of a question."""


class Talks(PartWorker[list[Answered]]):
    """No question waits for another, and no way for another's answer."""

    def __init__(self, parts: RagParts, sweep: RagSweep, control: str, holders: Holders) -> None:
        super().__init__(parts, sweep, baseline(), control)
        self._parts, self._sweep, self._holders = parts, sweep, holders

    async def make(self, part: int, asker: Asks) -> list[Answered]:
        """Answer the questions in every way, and judge that."""
        return await asyncio.gather(*(self._question(one, asker) for one in self._parts.questions(part)))

    async def keep(self, part: int, made: list[Answered]) -> None:
        rows = [row for of_question, _ in made for row in of_question]
        if self._holders.similarity:
            rows = await self._holders.similarity("measure", rows, self._parts.questions(part))
        whole = not any(failed_for_now(*row) for row in rows)
        ranks = [rank for _, found in made for rank in found]
        self._parts.write_made(part, [row for row, _ in rows], [score for _, score in rows], ranks, whole)

    async def note(self, part: int, tally: Tally) -> None:
        await self.make(part, Noting(tally))

    async def _question(self, question: RagQuestion, asker: Asks) -> Answered:
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

    def _cost(self, response: Response) -> float:
        """US dollars, 0 for whom no prices are known."""
        model = self._sweep.models.get(response.endpoint)
        return model.prices.cost(response) if model and model.prices else 0.0
