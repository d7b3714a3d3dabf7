"""Does a text bear a statement out? One function, several engines.

    >>> fdarx_core.verify([("Take 5 mg once daily.", "Take 5 mg once daily.")])[0].verdict
    'supported'

The module itself can be called, so that `fdarx_core.verify` is the function as well as the package of its engines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal, NamedTuple

from fdarx_core.verify.engine import Inference, Judgement, TextPair, Unjudged, VerificationEngine

THRESHOLD = 0.7
"""Probability from which a class decides. Source: FAS §3.2, Table 5."""


class Probabilities(NamedTuple):
    """Probabilities of the three NLI classes, which sum to 1."""

    entailment: float
    neutral: float
    contradiction: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an engine says of one pair.

    Attributes:
        verdict: the class whose probability reaches the threshold; undecided where none does or the engine failed.
        probabilities: None where the engine could not judge the pair.
        span: (start, end) of the part of the text that decides; None unless supported or contradicted.
        reason: what the engine saw, or why it could not judge.
        engine: the engine's name.
    """

    verdict: Literal["supported", "contradicted", "unsupported", "undecided"]
    probabilities: Probabilities | None
    span: tuple[int, int] | None
    reason: str
    engine: str


def verify(
    pairs: Sequence[tuple[str, str]], engine: str | VerificationEngine = "rules", *, threshold: float = THRESHOLD
) -> list[Verdict]:
    """Return a verdict for each (text, statement) pair, in order.

    Args:
        engine: `rules` (no model, imports neither Ray nor torch), the directory or hub name of an NLI cross-encoder,
            or any `VerificationEngine`.
        threshold: the probability from which a class decides.

    Raises:
        ModelMissing: for a name that is no NLI cross-encoder.
    """
    judge = open_engine(engine) if isinstance(engine, str) else engine
    judgements = judge.judge([TextPair(text, statement) for text, statement in pairs])
    return [_verdict(one, judge.name, threshold) for one in judgements]


def open_engine(name: str) -> VerificationEngine:
    """Return the engine of a name, as `verify` takes it."""
    if name == "rules":
        from fdarx_core.baseline.entailment import RuleEngine

        return RuleEngine()
    from fdarx_core.verify.cross_encoder import CrossEncoder

    return CrossEncoder(name)


def _verdict(judgement: Judgement, engine: str, threshold: float) -> Verdict:
    if isinstance(judgement, Unjudged):
        return Verdict("undecided", None, None, judgement.reason, engine)
    found = Probabilities(judgement.entailment, judgement.neutral, judgement.contradiction)
    span = (judgement.start, judgement.end)
    if found.entailment >= max(threshold, found.contradiction):
        return Verdict("supported", found, span, judgement.reason, engine)
    if found.contradiction >= threshold:
        return Verdict("contradicted", found, span, judgement.reason, engine)
    return Verdict("unsupported" if found.neutral >= threshold else "undecided", found, None, judgement.reason, engine)


class _CallableModule(ModuleType):
    """Importing any submodule binds the package to `fdarx_core.verify`; calling that must still verify."""

    def __call__(
        self,
        pairs: Sequence[tuple[str, str]],
        engine: str | VerificationEngine = "rules",
        *,
        threshold: float = THRESHOLD,
    ) -> list[Verdict]:
        return verify(pairs, engine, threshold=threshold)


sys.modules[__name__].__class__ = _CallableModule

__all__ = [
    "THRESHOLD",
    "Inference",
    "Judgement",
    "Probabilities",
    "TextPair",
    "Unjudged",
    "Verdict",
    "VerificationEngine",
    "open_engine",
    "verify",
]
