"""What is asked of whoever judges entailment, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TextPair:
    """A passage and a claim that it may entail or contradict; `drug` is the name of the drug in question, "" for none.

    The claim is never cut; a passage that is too long for a model is read in windows.
    """

    premise: str
    hypothesis: str
    drug: str = ""


@dataclass(frozen=True, slots=True)
class Inference:
    """Probabilities that sum to 1, and the window `premise[start:end]` that they rest on. `reason`: what was seen."""

    entailment: float
    neutral: float
    contradiction: float
    start: int
    end: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unjudged:
    """No judgement of a pair: `reason` is `NAME: what was wrong with this one`, the name fixed, to count by."""

    reason: str


Judgement = Inference | Unjudged


class VerificationEngine(Protocol):
    """Judges pairs by itself; an LLM is asked by a task instead (`factuality.tasks.judge_claim`)."""

    @property
    def name(self) -> str: ...

    def judge(self, pairs: Sequence[TextPair]) -> Sequence[Judgement]:
        """One a pair, in their order; the same for a pair whatever it is judged together with."""
        ...
