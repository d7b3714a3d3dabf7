"""From judged pairs to verdicts and scores, and how near answers are to their references."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fdarx_core.factuality.scores import NO_CLAIMS, score_of
from fdarx_core.factuality.similarity import open_similarity
from fdarx_core.factuality.verdicts import verdicts_of
from fdarx_core.pipeline.factuality.flagging import Flagged
from fdarx_core.pipeline.factuality.pairing import Held
from fdarx_core.pipeline.factuality.parts import Checked
from fdarx_core.pipeline.factuality.what import Checking
from fdarx_core.records import CheckedAnswer, ClaimVerdict, Evidence, FactualityScore, PairVerdict

NO_CLAIMS_MADE = "claims_failed"
"""Why an answer whose claims could not be made out has no shares and no FAS."""


class SimilarityHolder:
    """A Ray actor that holds the model of similarity."""

    def __init__(self, checking: Checking) -> None:
        self._similarity = open_similarity(checking.bertscore, checking.bertscore_layers, checking.encoder)

    def of(self, answers: Sequence[CheckedAnswer]) -> list[float | None]:
        return self._similarity.of(answers)


def checked(
    checking: Checking,
    held: Sequence[Held],
    pairs: list[PairVerdict],
    similarities: Sequence[float | None] | None,
    flags: Sequence[Flagged],
) -> Checked:
    """All rows of a part. Similarities that no model measured are by shared words."""
    by_words = open_similarity(None, None, None)
    near = by_words.of([one.answer for one in held]) if similarities is None else similarities
    made = Checked([one.answer for one in held], pairs=pairs)
    by_answer = _grouped(pairs)
    evidence: dict[str, Evidence] = {}
    for one, similarity, flagged in zip(held, near, flags, strict=True):
        mine = by_answer[one.answer.id]
        engine = checking.engine.name
        verdicts = verdicts_of(one.claims, mine, engine=engine, threshold=checking.threshold, k=checking.k)
        made.claims += one.claims
        made.verdicts += verdicts
        made.flags += [] if isinstance(flagged, str) else flagged
        made.scores.append(_score(checking, one, verdicts, mine, similarity, flagged))
        passages = [passage for found in one.found.values() for passage in found]
        evidence |= {passage.id: passage for passage in [*passages, *([one.stand_in] if one.stand_in else [])]}
    made.evidence = list(evidence.values())
    return made


def _score(
    checking: Checking,
    held: Held,
    verdicts: Sequence[ClaimVerdict],
    pairs: Sequence[PairVerdict],
    similarity: float | None,
    flagged: Flagged,
) -> FactualityScore:
    score = score_of(
        held.answer,
        held.claims,
        verdicts,
        pairs,
        similarity,
        [] if isinstance(flagged, str) else flagged,
        checking.weights,
        engine=checking.engine.name,
        threshold=checking.threshold,
    )
    if isinstance(flagged, str):
        score.unscored.append(f"flags: {flagged}")
    if not held.no_claims:
        return score
    why = f"{NO_CLAIMS_MADE}: {held.no_claims}"
    return replace(score, unscored=[one.replace(NO_CLAIMS, why) for one in score.unscored])


def _grouped(rows: Iterable[PairVerdict]) -> defaultdict[str, list[PairVerdict]]:
    """By answer."""
    groups: defaultdict[str, list[PairVerdict]] = defaultdict(list)
    for row in rows:
        groups[row.answer_id].append(row)
    return groups
