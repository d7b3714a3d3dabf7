"""How far the votes of a build's judges agree, by stage. Source: Krippendorff 2011 for α."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fdarx_core.filters.votes import group_votes
from fdarx_core.records import JudgeVerdict
from fdarx_core.review.agreement_metrics import alpha, coincidences

VoteSplits: TypeAlias = Counter[tuple[str, int, int, int]]
"""The number of questions by stage and by how many of their votes are kept, dropped and unscored. Its size does not
depend on the number of questions."""


@dataclass(frozen=True, slots=True)
class VoteAgreement:
    """The agreement of the votes of one stage, for `run.json`.

    `votes` counts all votes, `unscored` those without a verdict, and `questions` the questions with two scored votes at
    least, over which the figures are. `unanimous` is the share of them (0 to 1) whose scored votes are equal, None
    where there are none. `alpha` is Krippendorff's α of the outcomes kept and dropped, None where all votes are equal.
    """

    stage: str
    votes: int
    unscored: int
    questions: int
    unanimous: float | None
    alpha: float | None


def split_votes(votes: Iterable[JudgeVerdict]) -> VoteSplits:
    """Count questions by the split of their votes; all votes on a question must be among the given ones."""
    splits: VoteSplits = Counter()
    for (_, stage), group in group_votes(votes).items():
        outcomes = Counter(vote.outcome for vote in group)
        splits[stage, outcomes["kept"], outcomes["dropped"], outcomes["unscored"]] += 1
    return splits


def vote_agreement(splits: VoteSplits) -> list[VoteAgreement]:
    """Return the agreement of each stage that has votes, in the order in which the stages were counted."""
    by_stage: dict[str, VoteSplits] = defaultdict(Counter)
    for split, questions in splits.items():
        by_stage[split[0]][split] = questions
    return [_of_stage(stage, own) for stage, own in by_stage.items()]


def _of_stage(stage: str, splits: VoteSplits) -> VoteAgreement:
    paired: Counter[tuple[int, int]] = Counter()
    for (_, kept, dropped, _), questions in splits.items():
        if kept + dropped > 1:
            paired[kept, dropped] += questions
    total = paired.total()
    unanimous = sum(questions for split, questions in paired.items() if 0 in split)
    found = _alpha(paired) if paired else math.nan
    return VoteAgreement(
        stage,
        votes=sum(questions * sum(split[1:]) for split, questions in splits.items()),
        unscored=sum(questions * split[3] for split, questions in splits.items()),
        questions=total,
        unanimous=unanimous / total if total else None,
        alpha=None if math.isnan(found) else found,
    )


def _alpha(paired: Counter[tuple[int, int]]) -> float:
    """Return α from the number of questions by (votes to keep, votes to drop)."""
    most = max(map(sum, paired))
    votes = np.full((len(paired), most), np.nan)
    for row, (kept, dropped) in enumerate(paired):
        votes[row, : kept + dropped] = [0] * kept + [1] * dropped
    weights = np.array(list(paired.values()), dtype=np.float64)
    return float(alpha((coincidences(votes, 2) * weights[:, None, None]).sum(axis=0)))
