"""The few questions that a comparison's page shows whole, picked by a seeded hash of their ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fdarx_core.rag.tables import Comparison
from fdarx_core.records import RagAnswer, RagQuestion, RagScore
from fdarx_core.report.picks import Picks

SAMPLES = 12
FIRST = 320
"""Characters of a context that are shown."""


@dataclass(frozen=True, slots=True)
class ShownContext:
    """`useful` is the judge's verdict, None where there is none; `cited` whether the answer cites it."""

    number: int
    title: str
    text: str
    useful: bool | None
    cited: bool


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """What one strategy made of a question."""

    name: str
    answer: RagAnswer
    score: RagScore | None
    contexts: list[ShownContext]


@dataclass(frozen=True, slots=True)
class Sample:
    """A question with an answer a strategy and model, under the main post-processing."""

    question: RagQuestion
    answers: list[ShownAnswer]


def pick_samples(
    questions: Sequence[RagQuestion],
    answers: Iterable[RagAnswer],
    scores: Iterable[RagScore],
    what: Comparison,
    seed: int,
) -> list[Sample]:
    """Up to `SAMPLES`, in the order of the hash; strategies in the order of the tables."""
    picks: Picks[RagQuestion] = Picks(SAMPLES, seed)
    for one in questions:
        picks.offer("", one.id, lambda one=one: one)  # type: ignore[misc]
    picked = {one.id: one for one in picks.of("")}
    known = {_key(one): one for one in scores if one.question_id in picked and one.postprocess == what.main}
    kept = [one for one in answers if one.question_id in picked and one.postprocess == what.main]
    order = list(what.strategies)
    kept.sort(key=lambda one: order.index(one.strategy) if one.strategy in order else len(order))
    several = len({one.model for one in kept}) > 1
    return [
        Sample(
            question,
            [_shown(one, known.get(_key(one)), what, several) for one in kept if one.question_id == question.id],
        )
        for question in picked.values()
    ]


def _key(row: RagAnswer | RagScore) -> tuple[str, str, str]:
    return row.question_id, row.strategy, row.model


def _shown(answer: RagAnswer, score: RagScore | None, what: Comparison, several: bool) -> ShownAnswer:
    name = what.title(answer.strategy)
    return ShownAnswer(f"{name} · {answer.model}" if several else name, answer, score, _contexts(answer, score))


def _contexts(answer: RagAnswer, score: RagScore | None) -> list[ShownContext]:
    titles = dict(zip(answer.candidates, answer.candidate_titles, strict=True))
    verdicts: list[bool | None] = list(score.useful) if score else []
    verdicts += [None] * (len(answer.contexts) - len(verdicts))
    return [
        ShownContext(number, titles.get(chunk, chunk), _beginning(text), verdict, number in answer.citations)
        for number, (chunk, text, verdict) in enumerate(
            zip(answer.contexts, answer.context_texts, verdicts, strict=True), 1
        )
    ]


def _beginning(text: str) -> str:
    """The first lines, without empty ones, cut between words."""
    lines = "\n".join(line for line in text.split("\n") if line.strip())
    return lines if len(lines) <= FIRST else f"{lines[:FIRST].rsplit(None, 1)[0]} …"
