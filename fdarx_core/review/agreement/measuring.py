"""From the items and annotations of a review to all that its report tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fdarx_core.evaluation.statistics.bootstrap import RESAMPLES
from fdarx_core.records.review import Annotation, ReviewItem
from fdarx_core.review.agreement.confusion import Confusion, confusions
from fdarx_core.review.agreement.figures import AgreementFigure, task_figures
from fdarx_core.review.agreement.scales import scales
from fdarx_core.review.agreement.votes import Voted, collect, consensus
from fdarx_core.review.tasks import REVIEW_TASKS


@dataclass(frozen=True, slots=True)
class Tally:
    """How far one task came: its items, those with a vote, of these those without a decision of the judge, the ids of
    those whose votes tie, and each annotator's votes.
    """

    task: str
    items: int
    judged: int
    undecided: int
    ties: list[str]
    votes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Agreement:
    """All that is known of how far judges and people agree.

    `informed` votes were given with the judge's decision in view; with `blind` they are in no figure. `blind`,
    `weighted` and `seed` are as they were given.
    """

    voted: list[Voted]
    figures: list[AgreementFigure]
    confusions: list[Confusion]
    tallies: list[Tally]
    informed: int
    blind: bool
    weighted: bool
    seed: int


def measure(
    items: Iterable[ReviewItem],
    annotations: Sequence[Annotation],
    *,
    blind: bool = False,
    weighted: bool = False,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Agreement:
    """Agreement of judges with people, and of people with each other, in each task that has votes.

    `blind` leaves out votes given with the judge's decision in view; `weighted` counts each item for those that the
    fraction of its stratum says it stands for. Raises ValueError as `collect` does.
    Source: FDARxBench Tables 3, 4 and 5.
    """
    voted = collect(items, annotations, blind=blind)
    figures: list[AgreementFigure] = []
    tables: list[Confusion] = []
    tallies: list[Tally] = []
    for name, task in REVIEW_TASKS.items():
        of_task = [one for one in voted if one.item.task == name]
        tallies += [_tally(name, of_task)] if of_task else []
        if any(one.annotations for one in of_task):
            readings = scales(task)
            for scale in readings:
                figures += task_figures(of_task, scale, weighted=weighted, seed=seed, resamples=resamples)
            tables += confusions(of_task, readings[-1])
    informed = sum(one.saw_decision for one in annotations)
    return Agreement(voted, figures, tables, tallies, informed, blind, weighted, seed)


def _tally(task: str, voted: Sequence[Voted]) -> Tally:
    with_votes = [one for one in voted if one.annotations]
    return Tally(
        task,
        len(voted),
        len(with_votes),
        sum(not one.item.decision for one in with_votes),
        [one.item.id for one in with_votes if not consensus(one.values)],
        dict(Counter(vote.annotator for one in with_votes for vote in one.annotations)),
    )
