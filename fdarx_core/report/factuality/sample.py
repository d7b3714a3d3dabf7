"""All answers counted, and the seeded sample of them that a page can hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from fdarx_core.records import FactualityScore
from fdarx_core.report.factuality.results import ExaminedAnswer
from fdarx_core.report.picks import Picks

SHOWN = 200
PER_KIND = 100
"""Of a model; while answers are gone through, all these are in memory."""
KINDS = ("flagged", "contradicted", "unsupported", "supported", "unscored", "no_claims")
"""What an answer is picked as: by the first of these that holds."""

Place = tuple[str, str]
"""Model and setting."""


@dataclass(slots=True)
class Tally:
    """All answers of a scoring in counts; models in the order in which they came.

    `answers` are counted by model and setting, `verdicts` (of claims) by these and the verdict, `reasons` are those of
    claims without one, `without_fas` those of answers without FAS; `flagged` is answers with a safety flag.
    """

    answers: Counter[Place] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    datasets: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[tuple[Place, str]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    without_fas: Counter[str] = field(default_factory=Counter)
    flagged: int = 0

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(model for model, _ in self.answers))

    @property
    def settings(self) -> list[str]:
        """Those that have a name."""
        return list(dict.fromkeys(setting for _, setting in self.answers if setting))

    def of_verdict(self, verdict: str) -> int:
        """Claims of all models."""
        return sum(rows for (_, one), rows in self.verdicts.items() if one == verdict)

    def add(self, one: ExaminedAnswer) -> None:
        """Counts it."""
        place = one.answer.model, one.answer.setting
        self.answers[place] += 1
        self.outcomes[one.answer.outcome] += 1
        self.datasets[one.answer.dataset] += 1
        self.flagged += bool(one.flags)
        if one.score.fas is None:
            lacking = next((told for told in one.score.unscored if told.startswith("fas: ")), "fas: ")
            self.without_fas[lacking] += 1
        self.verdicts.update((place, verdict.verdict) for verdict in one.verdicts)
        self.reasons.update(verdict.reason for verdict in one.verdicts if verdict.verdict == "unscored")


def kind_of(score: FactualityScore) -> str:
    """A name of `KINDS`: what a reader would most want to see comes first."""
    found = {
        "flagged": score.flags,
        "contradicted": score.contradicted,
        "unsupported": score.unsupported_claims,
        "supported": score.supported,
        "unscored": score.unscored_claims,
    }
    return next((kind for kind, rows in found.items() if rows), "no_claims")


def collect(answers: Iterable[ExaminedAnswer], seed: int) -> tuple[Tally, list[ExaminedAnswer]]:
    """Goes through the answers once, and keeps up to `SHOWN` of them by a hash of seed and id.

    Each model has the same share, within it each kind in turn; in the order of the kinds, flagged ones first.
    """
    tally, picks = Tally(), Picks[ExaminedAnswer](PER_KIND, seed)
    for one in answers:
        tally.add(one)
        group = _group(one.answer.model, kind_of(one.score))
        picks.offer(group, one.answer.id, lambda one=one: _alone(one))  # type: ignore[misc]
    shares = [list(_in_turn([picks.of(_group(model, kind)) for kind in KINDS])) for model in tally.models]
    picked = list(_in_turn(shares))[:SHOWN]
    return tally, sorted(picked, key=lambda one: KINDS.index(kind_of(one.score)))


def _alone(one: ExaminedAnswer) -> ExaminedAnswer:
    """With its own passages only: it outlives the part of the run that it came in."""
    wanted = {pair.evidence_id for pair in one.pairs}
    return replace(one, evidence={name: row for name, row in one.evidence.items() if name in wanted})


def _group(model: str, kind: str) -> str:
    return f"{model}\x1f{kind}"


def _in_turn(groups: Sequence[Sequence[ExaminedAnswer]]) -> Iterator[ExaminedAnswer]:
    """The first of each group, then the second of each, and so on."""
    for row in zip_longest(*groups):
        yield from (one for one in row if one is not None)
