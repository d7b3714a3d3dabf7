"""Whoever judges entailment, at work: rules in Ray tasks, NLI models in Ray actors, an LLM over the network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Protocol

import ray

from fdarx_core.factuality.entailment.inference import Judgement, Pair, Unjudged
from fdarx_core.factuality.entailment.nli import NliEntailment
from fdarx_core.factuality.entailment.rules import RulesEntailment
from fdarx_core.factuality.gold import Asked
from fdarx_core.factuality.tasks.judge_claim import JUDGE_CLAIM, judge_asked, read_judged
from fdarx_core.factuality.verdicts import judged
from fdarx_core.pipeline.factuality.guarded import as_read, by_rules
from fdarx_core.pipeline.factuality.what import Checking, Engine
from fdarx_core.pipeline.parted.pool import Pool
from fdarx_core.pipeline.parted.worker import Asks
from fdarx_core.records import PairVerdict

_PAIRS_A_TASK = 512
_PAIRS_A_CALL = 2048
"""So many of like length fill an actor's batches, and a part keeps several actors busy."""
TASK_CPUS = 0.8
"""Of a task that works on a CPU: as many as there are CPUs fit beside the actors, which take a little of the count."""


class Judge(Protocol):
    """Judges pairs; each row comes back with its probabilities, or with the reason why it has none, in order."""

    async def __call__(self, asked: Sequence[Asked]) -> list[PairVerdict]: ...


class NliHolder:
    """A Ray actor that holds an NLI model."""

    def __init__(self, engine: Engine) -> None:
        self._model = NliEntailment(engine.place, labels=engine.labels)

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        return self._model.judge(pairs)


class ByRules:
    """Rules, on all CPUs."""

    def __init__(self) -> None:
        self._judge: Any = ray.remote(_by_rules).options(num_cpus=TASK_CPUS)

    async def __call__(self, asked: Sequence[Asked]) -> list[PairVerdict]:
        pieces = [[one.pair for one in asked[at : at + _PAIRS_A_TASK]] for at in range(0, len(asked), _PAIRS_A_TASK)]
        found = await asyncio.gather(*(self._judge.remote(piece) for piece in pieces))
        return _filled(asked, (one for piece in found for one in piece))


class ByModel:
    """NLI models in actors: pairs of a part go to them by length, so that a batch holds hardly any padding."""

    def __init__(self, models: Pool) -> None:
        self._models = models

    async def __call__(self, asked: Sequence[Asked]) -> list[PairVerdict]:
        order = sorted(range(len(asked)), key=lambda at: len(asked[at].pair.premise) + len(asked[at].pair.hypothesis))
        pieces = [order[at : at + _PAIRS_A_CALL] for at in range(0, len(order), _PAIRS_A_CALL)]
        found = await asyncio.gather(*(self._models("judge", [asked[at].pair for at in piece]) for piece in pieces))
        by_place = dict(zip(order, (one for piece in found for one in piece), strict=True))
        return _filled(asked, (by_place[at] for at in range(len(asked))))


class ByAsking:
    """A language model: one request for a claim and the passages of one kind that it is held against."""

    def __init__(self, checking: Checking, engine: Engine, asker: Asks) -> None:
        self._address, self._asker = checking.address(engine.name), asker

    async def __call__(self, asked: Sequence[Asked]) -> list[PairVerdict]:
        groups = [list(group) for _, group in groupby(asked, key=_claim)]
        slots = [
            judge_asked(group[0].pair.hypothesis, [one.pair.premise for one in group], group[0].pair.drug)
            for group in groups
        ]
        address = self._address
        requests = [JUDGE_CLAIM.request(one, endpoint=address.name, sampling=address.sampling) for one in slots]
        responses = await self._asker.ask(requests)
        found: list[Judgement] = []
        for group, response in zip(groups, responses, strict=True):
            read = as_read(read_judged, response, [one.pair.premise for one in group])
            found += [Unjudged(read)] * len(group) if isinstance(read, str) else read
        return _filled(asked, found)


def _by_rules(pairs: Sequence[Pair]) -> list[Judgement]:
    found = (by_rules(RulesEntailment().judge, [pair]) for pair in pairs)
    return [Unjudged(one) if isinstance(one, str) else one[0] for one in found]


def _claim(asked: Asked) -> tuple[str, str, str, int]:
    row = asked.verdict
    return row.answer_id, row.claim_id, row.kind, row.number


def _filled(asked: Sequence[Asked], found: Iterable[Judgement]) -> list[PairVerdict]:
    return [
        replace(one.verdict, reason=judgement.reason)
        if isinstance(judgement, Unjudged)
        else judged(one.verdict, judgement)
        for one, judgement in zip(asked, found, strict=True)
    ]
