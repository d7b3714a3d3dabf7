"""One answer in numbers: shares of its claims, nearness to its references, the Fact-Aligned Score. Source: FAS §3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import isclose, isfinite

import numpy as np
from numpy.typing import NDArray

from fdarx_core.factuality.gold import gold_claims_of, gold_of
from fdarx_core.factuality.overlap import bleu_4, rouge
from fdarx_core.factuality.verdicts import CONTRADICTED, SUPPORTED, THRESHOLD, UNSCORED, UNSUPPORTED
from fdarx_core.records import CheckedAnswer, Claim, ClaimVerdict, FactualityScore, PairVerdict, SafetyFlag

Numbers = NDArray[np.float64]

FAILED = "failed"
NO_CLAIMS = "no_claims"
NO_REFERENCE = "no_reference"
NO_VERDICT = "no_verdict"
"""None of the claims could be judged."""
NOT_MEASURED = "not_measured"
OVERLAPS = ("rouge_1", "rouge_2", "rouge_l", "bleu_4")
SHARES = ("support", "contra", "unsupported")


@dataclass(frozen=True, slots=True)
class Weights:
    """What the terms of FAS count. Raises `ValueError` unless none is negative and they add up to 1.

    Source: FAS §3.2.
    """

    similarity: float = 0.3
    support: float = 0.4
    contra: float = 0.3

    def __post_init__(self) -> None:
        terms = astuple(self)
        if not all(isfinite(term) and term >= 0 for term in terms) or not isclose(sum(terms), 1, abs_tol=1e-9):
            raise ValueError(
                f"weights {', '.join(f'{term:g}' for term in terms)} (similarity, support, contra) must be 0 or more "
                f"and add up to 1; these add up to {sum(terms):g}"
            )

    @classmethod
    def read(cls, text: str) -> Weights:
        """From `0.3,0.4,0.3`: similarity, support, contra. Raises `ValueError` for anything else."""
        try:
            terms = [float(term) for term in text.split(",")]
        except ValueError:
            terms = []
        if len(terms) != 3:
            raise ValueError(f"weights are three numbers, similarity,support,contra, as 0.3,0.4,0.3; not {text!r}")
        return cls(*terms)


WEIGHTS = Weights()


def fact_aligned_score(weights: Weights, similarity: Numbers, support: Numbers, contra: Numbers) -> Numbers:
    """FAS element by element, in 0 to 1; NaN where a term that has a weight is NaN. Source: FAS §3.2."""
    total = np.zeros(np.shape(support))
    for weight, term in zip(astuple(weights), (similarity, support, 1 - np.asarray(contra)), strict=True):
        if weight:
            total = total + weight * term
    return np.asarray(total, dtype=np.float64)


def score_of(
    answer: CheckedAnswer,
    claims: Sequence[Claim],
    verdicts: Sequence[ClaimVerdict],
    pairs: Sequence[PairVerdict],
    similarity: float | None,
    flags: Sequence[SafetyFlag],
    weights: Weights = WEIGHTS,
    *,
    engine: str,
    threshold: float = THRESHOLD,
) -> FactualityScore:
    """The row of one answer, from all that was found of it; `pairs` of other engines than `engine` don't count.

    `similarity` is what `Similarity.of` measured. A failed answer has no values; one without claims, as a refusal, has
    no shares and no FAS. What has no value is named in `unscored` as `field: reason`.
    """
    counts = Counter(verdict.verdict for verdict in verdicts)
    mine = [pair for pair in pairs if pair.engine == engine]
    score = FactualityScore(
        answer.id, answer.question_id, answer.model, answer.dataset, answer.type, answer.setting, answer.cluster,
        answer.outcome, len(claims), counts[SUPPORTED], counts[CONTRADICTED], counts[UNSUPPORTED], counts[UNSCORED],
        flags=len(flags),
    )  # fmt: skip
    if answer.outcome == FAILED:
        score.unscored = [f"{name}: {FAILED}" for name in ("similarity", *OVERLAPS, *SHARES, "fas")]
        return score
    score.gold, score.gold_claims = gold_of(answer, mine, threshold), gold_claims_of(mine, threshold)
    _overlaps(score, answer)
    _shares(score)
    score.similarity = similarity
    if similarity is None:
        score.unscored.append(f"similarity: {NOT_MEASURED if answer.references else NO_REFERENCE}")
    _aligned(score, weights)
    return score


def _overlaps(score: FactualityScore, answer: CheckedAnswer) -> None:
    if not answer.references:
        score.unscored += [f"{name}: {NO_REFERENCE}" for name in OVERLAPS]
        return
    score.rouge_1, score.rouge_2, score.rouge_l = rouge(answer.answer, answer.references)
    score.bleu_4 = bleu_4(answer.answer, answer.references)


def _shares(score: FactualityScore) -> None:
    told = score.supported + score.contradicted + score.unsupported_claims
    if not told:
        reason = NO_VERDICT if score.claims else NO_CLAIMS
        score.unscored += [f"{name}: {reason}" for name in SHARES]
        return
    score.support, score.contra = score.supported / told, score.contradicted / told
    score.unsupported = score.unsupported_claims / told


def _aligned(score: FactualityScore, weights: Weights) -> None:
    """FAS, or the reasons of the terms that it lacks."""
    terms = (np.asarray(np.nan if term is None else term) for term in (score.similarity, score.support, score.contra))
    value = float(fact_aligned_score(weights, *terms))
    if not np.isnan(value):
        score.fas = min(1.0, max(0.0, value))
        return
    used = {name for name in ("similarity", "support", "contra") if getattr(weights, name)}
    lacking = [one.partition(": ") for one in score.unscored]
    score.unscored.append(f"fas: {', '.join(dict.fromkeys(why for name, _, why in lacking if name in used))}")
