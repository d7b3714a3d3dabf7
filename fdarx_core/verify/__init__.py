"""Verification of statements against texts, by one of several engines.

    >>> fdarx_core.verify([("Take 5 mg once daily.", "Take 5 mg once daily.")])[0].verdict
    'supported'

The module itself can be called, so that `fdarx_core.verify` is the function as well as the package of its engines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from fdarx_core.verify.engine import THRESHOLD as THRESHOLD
from fdarx_core.verify.engine import Inference as Inference
from fdarx_core.verify.engine import Judgement as Judgement
from fdarx_core.verify.engine import TextPair as TextPair
from fdarx_core.verify.engine import Unjudged as Unjudged
from fdarx_core.verify.engine import VerdictName, decide
from fdarx_core.verify.engine import VerificationEngine as VerificationEngine

if TYPE_CHECKING:
    from fdarx_core.llm import Model

AUTO = "auto"
"""The name of the engine that is at hand: an NLI cross-encoder, else exact matching."""
_CROSS_ENCODER, _LANGUAGE_MODEL = "cross-encoder:", "language-model:"


class Probabilities(NamedTuple):
    """Probabilities of the three NLI classes, which sum to 1."""

    entailment: float
    neutral: float
    contradiction: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of an engine on one pair.

    Attributes:
        verdict: the class whose probability reaches the threshold; undecided where none does or the engine failed.
        probabilities: None where the engine could not judge the pair.
        span: (start, end) of the part of the text that decides; None unless supported or contradicted.
        reason: what the engine found, or why it could not judge.
        engine: the engine's name.
        other_drug: whether the text is about another drug than the statement; language models alone tell it.
    """

    verdict: VerdictName
    probabilities: Probabilities | None
    span: tuple[int, int] | None
    reason: str
    engine: str
    other_drug: bool = False


def verify(
    pairs: Sequence[tuple[str, str] | TextPair],
    engine: str | Model | VerificationEngine = AUTO,
    *,
    threshold: float = THRESHOLD,
) -> list[Verdict]:
    """Return a verdict for each pair, in order.

    Args:
        pairs: (text, statement), or `TextPair` with what else is known of them.
        engine: the name of an engine as `open_engine` takes it, a `fdarx.Model`, or any `VerificationEngine`.
        threshold: the probability from which a class decides.

    Raises:
        ModelMissing: for a name that is no NLI cross-encoder.
        ModelsError: for a language model without an address.
    """
    pairs = list(pairs)
    for pair in pairs:
        of_two = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(text, str) for text in pair)
        if not isinstance(pair, TextPair) and not of_two:
            raise ValueError(f"pairs has {pair!r:.80}, not (text, statement); write verify([(text, statement)])")
    judge = open_engine(engine)
    judgements = judge.judge([pair if isinstance(pair, TextPair) else TextPair(*pair) for pair in pairs])
    return [verdict_of(judgement, judge.name, threshold) for judgement in judgements]


def open_engine(engine: str | Model | VerificationEngine) -> VerificationEngine:
    """Return an engine by its name.

    Args:
        engine: `cross-encoder:MODEL` or `MODEL`, the directory, hub name or short name (`NAMED_MODELS`) of an NLI
            cross-encoder; `language-model:ID@BASE_URL`, a language model on a server that needs no key; `exact`, which
            supports what stands in the text word for word, abstains elsewhere, and imports no torch; `auto`, a
            cross-encoder that is on this machine (`default_engine`), else `exact`. A `fdarx.Model` is a language model
            too. An engine is returned as it is.
    """
    if not isinstance(engine, str):
        if hasattr(engine, "judge"):
            return engine
        from fdarx_core.verify.language_model import LanguageModel

        return LanguageModel(engine)
    if engine == AUTO:
        from fdarx_core.verify.nli_model import default_engine

        engine = default_engine()
    if engine == "exact":
        from fdarx_core.verify.exact import ENGINE

        return ENGINE
    if engine.startswith(_LANGUAGE_MODEL):
        from fdarx_core.llm import Model
        from fdarx_core.verify.language_model import LanguageModel

        model, _, base_url = engine.removeprefix(_LANGUAGE_MODEL).rpartition("@")
        if not model:
            raise ValueError(f"{engine!r} names no server; write {_LANGUAGE_MODEL}ID@http://HOST:PORT/v1")
        return LanguageModel(Model(model, base_url=base_url))
    from fdarx_core.verify.cross_encoder import CrossEncoder

    return CrossEncoder("general" if engine == "cross-encoder" else engine.removeprefix(_CROSS_ENCODER))


def verdict_of(judgement: Judgement, engine: str, threshold: float = THRESHOLD) -> Verdict:
    """Return the verdict of a judgement by the engine of this name."""
    if isinstance(judgement, Unjudged):
        return Verdict("undecided", None, None, judgement.reason, engine)
    found = Probabilities(judgement.entailment, judgement.neutral, judgement.contradiction)
    verdict = decide(*found, threshold)
    span = (judgement.start, judgement.end) if verdict in ("supported", "contradicted") else None
    return Verdict(verdict, found, span, judgement.reason, engine, judgement.other_drug)


class _CallableModule(ModuleType):
    """Importing any submodule binds the package to `fdarx_core.verify`; calling that must still verify."""

    __call__ = staticmethod(verify)


sys.modules[__name__].__class__ = _CallableModule
