"""Verification engines: the pairs that they are given, the judgements that they return, and their interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

THRESHOLD = 0.7
"""Probability from which a class decides. Source: FAS §3.2, Table 5."""
UNDECIDED = 1 / 3
"""The probability of each class where an engine that works by rules does not decide."""


@dataclass(frozen=True, slots=True)
class TextPair:
    """A text (`premise`) that may entail or contradict a statement (`hypothesis`).

    The statement is never cut; a text that is too long for a model is read in windows. The other fields are optional,
    and an engine that cannot use them ignores them.

    Attributes:
        drug: the name of the drug that both speak of.
        question: the question that the statement answers.
        heading: the titles above the text.
        beside: a second text, which may support the rest of the statement.
    """

    premise: str
    hypothesis: str
    drug: str = ""
    question: str = ""
    heading: str = ""
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Inference:
    """Probabilities of the three NLI classes, which sum to 1, the part `premise[start:end]` they rest on, a reason.

    `other_drug` says that the text is about another drug than the statement, which is then neutral to it.
    """

    entailment: float
    neutral: float
    contradiction: float
    start: int
    end: int
    reason: str = ""
    other_drug: bool = False


@dataclass(frozen=True, slots=True)
class Unjudged:
    """No judgement of a pair. `reason` is `NAME: detail`, where NAME is fixed, to count by."""

    reason: str


Judgement = Inference | Unjudged


VerdictName = Literal["supported", "contradicted", "unsupported", "undecided"]


def decide(entailment: float, neutral: float, contradiction: float, threshold: float) -> VerdictName:
    """Return the verdict of the class whose probability reaches the threshold; undecided where none does."""
    if entailment >= max(threshold, contradiction):
        return "supported"
    if contradiction >= threshold:
        return "contradicted"
    return "unsupported" if neutral >= threshold else "undecided"


class VerificationEngine(Protocol):
    """Judges whether texts support or contradict statements."""

    @property
    def name(self) -> str: ...

    def judge(self, pairs: Sequence[TextPair]) -> Sequence[Judgement]:
        """Return one judgement for each pair, in order; it does not depend on the other pairs."""
        ...


@dataclass(frozen=True, slots=True)
class RuleEngine:
    """An engine without a model: judges each pair by a rule."""

    name: str
    rule: Callable[[TextPair], Judgement]

    def judge(self, pairs: Sequence[TextPair]) -> list[Judgement]:
        return [self.rule(pair) for pair in pairs]
