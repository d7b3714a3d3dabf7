"""Figures of agreement of one task on one scale, by judge and question type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import pyarrow as pa

from fdarx_core.evaluation.aggregates import Aggregate, Columns, Mask
from fdarx_core.evaluation.groups import TYPES
from fdarx_core.evaluation.statistics import Estimate, Slice, estimate
from fdarx_core.review.agreement.aggregates import JUDGE, WEIGHT, against_judge, among, between
from fdarx_core.review.agreement.scales import Scale
from fdarx_core.review.agreement.votes import Voted, consensus, unanimous

ALL = "all"
_ROUNDING = 1e-9
"""Bounds that lie closer together than this are equal but for rounding."""


@dataclass(frozen=True, slots=True)
class AgreementFigure:
    """One coefficient with its 95 % interval (None where it has no meaning, rests on one label or never varies).

    `values` are those of the scale, `positive` "" where it has none. `judge` and `type` say which items, `all` for any.
    `between` is consensus or unanimous (people together, the judge as predictor), annotator (one of them, likewise),
    pair (two annotators) or annotators (all); `who` names them. It rests on `items` of `labels` labels; `unscored` are
    items that people judged and the judge did not.
    """

    task: str
    values: list[str]
    positive: str
    judge: str
    type: str
    between: str
    who: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    items: int
    labels: int
    unscored: int


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An aggregate and the names that its figure gets."""

    between: str
    who: str
    metric: str
    aggregate: Aggregate


def task_figures(
    voted: Sequence[Voted], scale: Scale, *, weighted: bool, seed: int, resamples: int
) -> list[AgreementFigure]:
    """Every coefficient of the items of one task. `weighted` counts each item for those it was drawn from.

    Coefficients that rest on no item, and were due on none, are left out.
    """
    people = annotators(voted)
    columns = Columns(_table(voted, scale, people, weighted))
    wanted = list(_wanted(people, scale))
    found: list[AgreementFigure] = []
    for judge, type_, rows in _groups(columns):
        estimates = estimate(columns, [Slice(one.aggregate, rows) for one in wanted], seed=seed, resamples=resamples)
        found += [
            AgreementFigure(
                scale.task, list(scale.values), scale.positive, judge, type_, one.between, one.who, one.metric,
                got.value, *_bounds(got), got.rows, got.labels, got.unscored,
            )
            for one, got in zip(wanted, estimates, strict=True)
            if got.rows or got.unscored
        ]  # fmt: skip
    return found


def _bounds(got: Estimate) -> tuple[float | None, float | None]:
    """None where all resamples are alike: few items on which nobody differs do not make a judge infallible."""
    if got.low is None or got.high is None or got.high - got.low < _ROUNDING:
        return None, None
    return got.low, got.high


def annotators(voted: Sequence[Voted]) -> list[str]:
    """Their names in order."""
    return sorted({vote.annotator for one in voted for vote in one.annotations})


def _wanted(people: Sequence[str], scale: Scale) -> Iterator[_Wanted]:
    for voice in ("consensus", "unanimous"):
        for metric, one in against_judge(voice, scale).items():
            yield _Wanted(voice, "", metric, one)
    voices = {name: _voice(at) for at, name in enumerate(people)}
    for name, voice in voices.items():
        for metric, one in against_judge(voice, scale).items():
            yield _Wanted("annotator", name, metric, one)
    for pair in combinations(people, 2):
        for metric, one in between(voices[pair[0]], voices[pair[1]], scale).items():
            yield _Wanted("pair", ", ".join(pair), metric, one)
    if len(people) > 1:
        yield _Wanted("annotators", ", ".join(people), "alpha", among(list(voices.values()), scale))


def _voice(at: int) -> str:
    return f"annotator {at}"


def _table(voted: Sequence[Voted], scale: Scale, people: Sequence[str], weighted: bool) -> pa.Table:
    """A row an item, as `aggregates` reads it; a tie is of no value, as is a decision that was not reached."""
    votes = [{vote.annotator: scale.read(vote.value) for vote in one.annotations} for one in voted]
    columns: dict[str, pa.Array] = {
        "question_id": pa.array([one.item.id for one in voted], pa.string()),
        "set_id": pa.array([one.item.set_id for one in voted], pa.string()),
        "type": pa.array([one.item.type for one in voted], pa.string()),
        "by": pa.array([one.item.judge for one in voted], pa.string()),
        WEIGHT: pa.array(_weights(voted, weighted), pa.float64()),
        JUDGE: _codes(scale, [scale.read(one.item.decision) if one.item.decision else "" for one in voted]),
        "consensus": _codes(scale, [consensus(list(of.values())) for of in votes]),
        "unanimous": _codes(scale, [unanimous(list(of.values())) for of in votes]),
    }
    for at, name in enumerate(people):
        columns[_voice(at)] = _codes(scale, [of.get(name, "") for of in votes])
    return pa.table(columns)


def _codes(scale: Scale, values: Sequence[str]) -> pa.Array:
    return pa.array([scale.code(value) for value in values], pa.float64())


def _weights(voted: Sequence[Voted], weighted: bool) -> list[float]:
    """1 each, or as the fractions drawn have it, 1 on average: chance corrections go by the items there are."""
    weights = [1 / one.item.fraction if weighted else 1.0 for one in voted]
    mean = sum(weights) / max(len(weights), 1)
    return [weight / mean for weight in weights]


def _groups(columns: Columns) -> Iterator[tuple[str, str, Mask]]:
    """The items of each judge, then of all judges where there are several, by question type and together."""
    judges = [name for name in dict.fromkeys(columns.strings("by").tolist()) if name]
    types = [name for name in TYPES if columns.is_in("type", name).any()]
    everything = columns.is_in("type", *set(columns.strings("type").tolist()))
    for judge in [*sorted(judges), ALL] if len(judges) > 1 else judges or [ALL]:
        of_judge = everything if judge == ALL else columns.is_in("by", judge)
        for type_ in types if len(types) > 1 else []:
            rows = of_judge & columns.is_in("type", type_)
            if rows.any():
                yield judge, type_, rows
        yield judge, ALL, of_judge
