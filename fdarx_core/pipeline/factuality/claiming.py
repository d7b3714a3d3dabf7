"""Whoever makes out claims, at work: rules in Ray tasks, or a language model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ray

from fdarx_core.factuality.claims import claims_of
from fdarx_core.factuality.tasks.extract_claims import EXTRACT_CLAIMS, claims_asked, read_claims
from fdarx_core.pipeline.factuality.guarded import as_read, by_rules
from fdarx_core.pipeline.factuality.judging import TASK_CPUS
from fdarx_core.pipeline.factuality.what import Checking
from fdarx_core.pipeline.parted.worker import Asks
from fdarx_core.records import CheckedAnswer, Claim

_ANSWERS_A_TASK = 8

Made = list[Claim] | str
"""The claims of an answer, or why they could not be made out."""


class Claimer(Protocol):
    """Makes out the claims of each answer, in order."""

    async def __call__(self, answers: Sequence[CheckedAnswer]) -> Sequence[Made]: ...


class ClaimsByRules:
    """Rules, on all CPUs."""

    def __init__(self) -> None:
        self._made: Any = ray.remote(_claims).options(num_cpus=TASK_CPUS)

    async def __call__(self, answers: Sequence[CheckedAnswer]) -> Sequence[Made]:
        pieces = [answers[at : at + _ANSWERS_A_TASK] for at in range(0, len(answers), _ANSWERS_A_TASK)]
        made = await asyncio.gather(*(self._made.remote(piece) for piece in pieces))
        return [one for piece in made for one in piece]


@dataclass(frozen=True, slots=True)
class ClaimsByAsking:
    """A language model, asked about each answer that says something."""

    checking: Checking
    asker: Asks

    async def __call__(self, answers: Sequence[CheckedAnswer]) -> Sequence[Made]:
        said = [one for one in answers if one.outcome == "answered" and one.answer.strip()]
        address = self.checking.address(self.checking.claims)
        requests = [
            EXTRACT_CLAIMS.request(claims_asked(one), endpoint=address.name, sampling=address.sampling) for one in said
        ]
        responses = await self.asker.ask(requests)
        read = {one.id: as_read(read_claims, one, response) for one, response in zip(said, responses, strict=True)}
        return [read.get(one.id, []) for one in answers]


def _claims(answers: Sequence[CheckedAnswer]) -> list[Made]:
    return [by_rules(claims_of, one) for one in answers]
