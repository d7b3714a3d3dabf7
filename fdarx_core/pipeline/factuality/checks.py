"""The process that takes all answers through their checks: limits and the store are shared because they are its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from fdarx_core.factuality.evidence.source import Query
from fdarx_core.factuality.evidence.stand_in import stand_in
from fdarx_core.factuality.gold import Asked
from fdarx_core.llm import TRANSIENT, Asker
from fdarx_core.pipeline.factuality.claiming import Claimer, ClaimsByAsking, ClaimsByRules
from fdarx_core.pipeline.factuality.finding import AtHand, Finder, FromPubMed, NotedPubMed
from fdarx_core.pipeline.factuality.flagging import Flagged
from fdarx_core.pipeline.factuality.judging import TASK_CPUS, ByAsking, ByModel, ByRules, Judge
from fdarx_core.pipeline.factuality.pairing import Held, against_evidence, not_searched, to_judge
from fdarx_core.pipeline.factuality.parts import Checked, FactualityParts
from fdarx_core.pipeline.factuality.scoring import checked
from fdarx_core.pipeline.factuality.what import Checking, Engine, baseline
from fdarx_core.pipeline.parted.pool import Pool
from fdarx_core.pipeline.parted.worker import Asks, Noting, PartWorker
from fdarx_core.pipeline.planning import Tally
from fdarx_core.records import CheckedAnswer, PairVerdict


@dataclass(frozen=True, slots=True)
class Holders:
    """The actors that hold what is heavy; `engines` are those of the NLI models, by the engine's name."""

    evidence: Pool = field(default_factory=Pool)
    similarity: Pool = field(default_factory=Pool)
    safety: Pool = field(default_factory=Pool)
    engines: dict[str, Pool] = field(default_factory=dict)


class Checks(PartWorker[Checked]):
    """Takes the answers of a part through their checks."""

    def __init__(self, parts: FactualityParts, checking: Checking, control: str, holders: Holders) -> None:
        super().__init__(parts, checking, baseline(), control)
        self._parts, self._checking, self._holders = parts, checking, holders
        self._tools: _Tools | None = None

    async def make(self, part: int, asker: Asker) -> Checked:
        tools = self._tools = self._tools or _Tools(self._checking, self._holders, asker)
        return await tools.checked(self._parts.answers(part))

    async def keep(self, part: int, made: Checked) -> None:
        self._parts.write_made(part, made, whole=not any(_failed_for_now(made)))

    async def note(self, part: int, tally: Tally) -> None:
        tools = _Tools(self._checking, self._holders, Noting(tally), tally)
        await tools.planned(self._parts.answers(part))


class _Tools:
    """All that works on answers, for one asker; `tally` is that of a plan, in which nothing but models is asked."""

    def __init__(self, checking: Checking, holders: Holders, asker: Asks, tally: Tally | None = None) -> None:
        self._checking = checking
        self._claim: Claimer = ClaimsByAsking(checking, asker) if checking.asks_for_claims else ClaimsByRules()
        self._find: Finder = self._finder(holders.evidence, asker, tally)
        self._judges = {one.name: self._judge(one, holders, asker) for one in checking.engines}
        self._similarity, self._safety = holders.similarity, holders.safety
        self._checked: Any = ray.remote(checked).options(num_cpus=TASK_CPUS)

    async def checked(self, answers: Sequence[CheckedAnswer]) -> Checked:
        """All that can be said of the answers."""
        held, similarities, flags = await asyncio.gather(
            self._held(answers), self._similar(answers), self._flags(answers)
        )
        pairs = await self._judged(held)
        made: Checked = await self._checked.remote(self._checking, held, pairs, similarities, flags)
        return made

    async def planned(self, answers: Sequence[CheckedAnswer]) -> None:
        """Have asked, of a tally, what a language model would be asked."""
        held = await self._held(answers)
        asking = [one.name for one in self._checking.engines if one.kind == "judge"]
        await asyncio.gather(*(self._judges[name](_asked(self._checking, name, held)) for name in asking))

    async def _held(self, answers: Sequence[CheckedAnswer]) -> list[Held]:
        made = await self._claim(answers)
        held = [
            Held(answer, no_claims=claims) if isinstance(claims, str) else Held(answer, claims, stand_in(answer))
            for answer, claims in zip(answers, made, strict=True)
        ]
        queries = [
            Query(claim.resolved, one.answer.question, one.answer.drug, one.answer.set_id)
            for one in held
            for claim in one.claims
        ]
        found = iter(await self._find(queries))
        for one in held:
            got = {claim.id: next(found) for claim in one.claims}
            one.found = {claim: passages for claim, passages in got.items() if not isinstance(passages, str)}
            one.failed = {claim: reason for claim, reason in got.items() if isinstance(reason, str)}
        return held

    async def _judged(self, held: Sequence[Held]) -> list[PairVerdict]:
        names = list(self._judges)
        found = await asyncio.gather(*(self._judges[name](_asked(self._checking, name, held)) for name in names))
        unsearched = [row for name in names for one in held for row in not_searched(one, name)]
        return [*(row for rows in found for row in rows), *unsearched]

    async def _similar(self, answers: Sequence[CheckedAnswer]) -> list[float | None] | None:
        return await self._similarity("of", answers) if self._similarity else None

    async def _flags(self, answers: Sequence[CheckedAnswer]) -> list[Flagged]:
        return await self._safety("flags", answers) if self._safety else [[] for _ in answers]

    def _finder(self, evidence: Pool, asker: Asks, tally: Tally | None) -> Finder:
        if not self._checking.from_pubmed:
            return AtHand(evidence)
        return FromPubMed(self._checking, asker) if tally is None else NotedPubMed(self._checking, tally)

    def _judge(self, engine: Engine, holders: Holders, asker: Asks) -> Judge:
        if engine.kind == "judge":
            return ByAsking(self._checking, engine, asker)
        return ByModel(holders.engines[engine.name]) if engine.name in holders.engines else ByRules()


def _asked(checking: Checking, engine: str, held: Sequence[Held]) -> list[Asked]:
    """What an engine is to judge: the one that is compared only what verdicts rest on."""
    pairs = to_judge if engine == checking.engine.name else against_evidence
    return [asked for one in held for asked in pairs(one, engine)]


def _failed_for_now(made: Checked) -> Iterator[bool]:
    """Whether something failed that asking again may cure."""
    yield from (TRANSIENT in reason for score in made.scores for reason in score.unscored)
    yield from (TRANSIENT in pair.reason for pair in made.pairs if pair.entailment is None)
