"""What a scoring of answers hands over to its page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.factuality.scores import Weights
from fdarx_core.factuality.summary import Summary
from fdarx_core.records import (
    CheckedAnswer,
    Claim,
    ClaimVerdict,
    Evidence,
    FactualityScore,
    PairVerdict,
    SafetyFlag,
)


@dataclass(frozen=True, slots=True)
class Method:
    """How answers were scored, each part by the name it goes by in the run.

    `claims` is baseline or a model's name, `evidence` the source's name; `entailment` is the engine as
    `PairVerdict.engine` has it, `compared` the second one of the ablation, "" for none. `similarity` names the measure
    that is the first term of FAS.
    """

    claims: str
    entailment: str
    evidence: str
    similarity: str
    threshold: float
    k: int
    weights: Weights
    compared: str = ""


@dataclass(frozen=True, slots=True)
class ExaminedAnswer:
    """One answer with all that was found of it.

    `pairs` are of any kind and engine; `evidence` holds, by id, at least the passages that those of kind evidence name.
    """

    answer: CheckedAnswer
    score: FactualityScore
    claims: Sequence[Claim] = ()
    verdicts: Sequence[ClaimVerdict] = ()
    pairs: Sequence[PairVerdict] = ()
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    flags: Sequence[SafetyFlag] = ()


@dataclass(frozen=True, slots=True)
class FactualityResults:
    """What a scoring gave. `info` is the run's run.json with what finishing will add (`notes` in it are shown).

    `answers` is gone through once, so it may read a part of the run at a time; a bounded sample of it is kept.
    `rejects` counts rejected rows by stage and reason, `contraindications` the rows of that table.
    """

    info: Mapping[str, Any]
    method: Method
    summary: Summary
    answers: Iterable[ExaminedAnswer]
    rejects: Mapping[tuple[str, str], int]
    contraindications: int = 0
