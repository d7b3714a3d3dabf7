"""Rank correlation of each metric with gold factuality, and FAS under ablations and other thresholds.

Ablations read the judged pairs again: no pair is judged anew, and all claims are decided at once by the rule of
`scores.verdict_of`. Intervals are by bootstrap over clusters within each group of answers. Source: FAS §5.3, §5.5,
Tables 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.metrics import Codes, Mask, Numbers
from fdarx_core.evaluation.rank_correlation import CorrelationContrast, RankCorrelation, spearman
from fdarx_core.factuality.figures import ALL, RESAMPLES, FactualityDifference, FactualityRows, cluster_of
from fdarx_core.factuality.scores import fact_aligned_score
from fdarx_core.records import Correlation

FULL, SINGLE, NO_RETRIEVAL = "full", "single", "no_retrieval"


@dataclass(frozen=True, slots=True)
class AblationConfig:
    """Which pairs decide: those of a kind, down to a rank, by an engine. `name` is as in `Correlation`."""

    name: str
    kind: str
    depth: int
    engine: str


def configurations(rows: FactualityRows) -> list[AblationConfig]:
    """The whole, its ablations and every other engine, of those that were judged; the whole goes first.

    Source: FAS Table 4.
    """
    others = [name for name in pc.unique(rows.pairs["engine"]).to_pylist() if name != rows.engine]
    wanted = [
        AblationConfig(FULL, "evidence", rows.k, rows.engine),
        AblationConfig(NO_RETRIEVAL, "reference", 0, rows.engine),
        *(AblationConfig(name, "evidence", rows.k, name) for name in sorted(others)),
        *([AblationConfig(SINGLE, "evidence", 1, rows.engine)] if rows.k > 1 else []),
    ]
    return [one for one in wanted if one.name == FULL or _chosen(rows.pairs, one).any()]


class AblationScores:
    """The claims of a configuration, each with its surest pair, whatever the threshold is."""

    def __init__(self, rows: FactualityRows, configuration: AblationConfig) -> None:
        self._rows = rows
        pairs = rows.pairs.filter(pa.array(_chosen(rows.pairs, configuration)))
        numbers = {score.answer_id: at for at, score in enumerate(rows.scores)}
        claims = pc.dictionary_encode(pairs["claim_id"]).combine_chunks()
        claim_of = claims.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        answers = np.array([numbers.get(name, -1) for name in pairs["answer_id"].to_pylist()], dtype=np.int64)
        self._answer_of = np.zeros(len(claims.dictionary), dtype=np.int64)
        self._answer_of[claim_of] = answers
        entailment, contradiction = (_floats(pairs[name]) for name in ("entailment", "contradiction"))
        self._supported, self._contradicted = (
            _highest(values, claim_of, len(claims.dictionary)) for values in (entailment, contradiction)
        )
        self._lacking = np.bincount(claim_of, np.isnan(entailment), len(claims.dictionary)) > 0

    def fas(self, threshold: float) -> Numbers:
        """FAS of each score's answer, in their order; NaN where a term that has a weight can't be had."""
        similarity = np.array([_or_nan(score.similarity) for score in self._rows.scores])
        return fact_aligned_score(self._rows.weights, similarity, *self.shares(threshold))

    def shares(self, threshold: float) -> tuple[Numbers, Numbers]:
        """Support and Contra of each score's answer; NaN where no claim has a verdict.

        A claim without any passage is unsupported.
        """
        surest = np.maximum(self._supported, self._contradicted)
        decided = surest >= threshold
        supported = decided & (self._supported >= self._contradicted)
        unscored = ~decided & self._lacking
        claims = np.array([score.claims for score in self._rows.scores], dtype=np.float64)
        told = claims - self._count(unscored)
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._count(supported) / told, self._count(decided & ~supported) / told

    def _count(self, claims: Mask) -> Numbers:
        """How many of the marked claims each answer has; claims of answers without a score are in none."""
        here = self._answer_of[claims & (self._answer_of >= 0)]
        return np.bincount(here, minlength=len(self._rows.scores)).astype(np.float64)


def _chosen(pairs: pa.Table, one: AblationConfig) -> Mask:
    rank = pairs["rank"].to_numpy()
    here = _is(pairs, "kind", one.kind) & _is(pairs, "engine", one.engine) & (rank <= one.depth)
    return np.asarray(here, dtype=np.bool_)


def _is(pairs: pa.Table, name: str, value: str) -> Mask:
    return np.asarray(pc.equal(pairs[name], value).to_numpy(), dtype=np.bool_)


def _floats(column: pa.ChunkedArray) -> Numbers:
    """NaN where there is no judgement."""
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _highest(values: Numbers, claim_of: Codes, claims: int) -> Numbers:
    """Of each claim's pairs that were judged; -1 where none was."""
    found = np.full(claims, -1.0)
    np.fmax.at(found, claim_of, values)
    return found


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def column_of(rows: FactualityRows, field: str) -> Numbers:
    """A field of all scores, NaN where one has no value."""
    values: Sequence[float | None] = [getattr(score, field) for score in rows.scores]
    return np.array([_or_nan(value) for value in values], dtype=np.float64)


GOLDS = ("gold", "gold_claims")
RELATED = ("fas", "support", "contra", "similarity", "rouge_1", "rouge_2", "rouge_l", "bleu_4")
"""The fields whose ranks are held against gold factuality."""
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Source: FAS Table 5."""
SPEARMAN = "spearman"
"""The metric of differences between correlations."""


def correlations(
    rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES
) -> tuple[list[Correlation], list[FactualityDifference]]:
    """Of every metric by dataset, question type and model; of FAS also for each configuration and threshold.

    Configurations and thresholds are for all answers and by dataset, with their differences from the whole at the run's
    own threshold, and those of FAS from other metrics, on the answers that both can score. Groups without gold are left
    out.
    """
    metrics = _metrics(rows)
    variants = _variants(rows)
    changes = [*_against(metrics), *_changes(rows, variants)]
    found: list[Correlation] = []
    changed: list[FactualityDifference] = []
    for gold in GOLDS:
        for group in _groups(rows, gold):
            asked = ([*metrics, *variants[1:]], changes) if group.whole else (metrics, [])
            more, less = group.related(*asked, seed, resamples)
            found, changed = found + more, changed + less
    return found, changed


@dataclass(frozen=True, slots=True)
class _Measure:
    """A metric of all answers, as a configuration and a threshold give it."""

    metric: str
    configuration: str
    threshold: float
    values: Numbers

    @property
    def variant(self) -> tuple[str, float]:
        return self.configuration, self.threshold


@dataclass(frozen=True, slots=True)
class _Change:
    """A measure less another, which differ in `varied`, and what they are called there."""

    varied: str
    of: str
    against: str
    first: _Measure
    second: _Measure


def _metrics(rows: FactualityRows) -> list[_Measure]:
    """FAS first."""
    names = {field: name for name, field in rows.fields.items()}
    return [_Measure(names[field], FULL, rows.threshold, column_of(rows, field)) for field in RELATED]


def _variants(rows: FactualityRows) -> list[_Measure]:
    """FAS of the whole at the run's threshold first, then of other configurations, then at other thresholds."""
    readings = {one.name: AblationScores(rows, one) for one in configurations(rows)}
    wanted = [(name, rows.threshold) for name in readings]
    wanted += [(FULL, threshold) for threshold in THRESHOLDS if not np.isclose(threshold, rows.threshold)]
    return [_Measure("fas", name, threshold, readings[name].fas(threshold)) for name, threshold in wanted]


def _against(metrics: Sequence[_Measure]) -> list[_Change]:
    """FAS less every other metric that should rise with gold."""
    fas, *others = metrics
    return [
        _Change("metric", fas.metric, one.metric, fas, one) for one in others if not one.metric.startswith("contra")
    ]


def _changes(rows: FactualityRows, variants: Sequence[_Measure]) -> list[_Change]:
    whole, *others = variants
    return [
        _Change("configuration", one.configuration, FULL, one, whole)
        if one.configuration != FULL
        else _Change("threshold", f"{one.threshold:g}", f"{rows.threshold:g}", one, whole)
        for one in others
    ]


def _groups(rows: FactualityRows, gold: str) -> Iterator[_Group]:
    """All answers, then those of each dataset, question type and model, where there is gold."""
    values = column_of(rows, gold)
    has_gold = ~np.isnan(values)
    named = {name: np.array([getattr(score, name) for score in rows.scores]) for name in ("dataset", "type", "model")}
    clusters = np.array([cluster_of(score) for score in rows.scores])
    by = [{}, *({name: str(value)} for name, column in named.items() for value in np.unique(column[has_gold]) if value)]
    for names in by:
        here = has_gold.copy()
        for name, value in names.items():
            here &= named[name] == value
        if here.any():
            yield _Group(
                gold, names.get("dataset", ALL), names.get("type", ALL), names.get("model", ALL), here, values[here],
                clusters[here].tolist(), whole=set(names) <= {"dataset"},
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Group:
    gold: str
    dataset: str
    type: str
    model: str
    here: Mask
    values: Numbers
    clusters: Sequence[str]
    whole: bool

    def related(
        self, measures: Sequence[_Measure], changes: Sequence[_Change], seed: int, resamples: int
    ) -> tuple[list[Correlation], list[FactualityDifference]]:
        """What can be said of each measure and each change, all by the same samples."""
        columns = [one.values[self.here] for one in measures]
        contrasts = [CorrelationContrast(one.first.values[self.here], one.second.values[self.here]) for one in changes]
        found = spearman([*columns, *contrasts], self.values, self.clusters, seed=seed, resamples=resamples)
        told = list(zip(changes, found[len(columns) :], strict=True))
        deltas = {one.first.variant: change.value for one, change in told if one.varied != "metric"}
        return (
            [self._correlation(one, related, deltas.get(one.variant))
             for one, related in zip(measures, found, strict=False) if related.rows],
            [self._difference(one, change) for one, change in told if change.value is not None],
        )  # fmt: skip

    def _correlation(self, one: _Measure, related: RankCorrelation, delta: float | None) -> Correlation:
        return Correlation(
            one.metric, self.gold, one.configuration, one.threshold, self.dataset, self.type, self.model,
            related.value, related.low, related.high, delta, related.rows, related.clusters,
        )  # fmt: skip

    def _difference(self, one: _Change, change: RankCorrelation) -> FactualityDifference:
        return FactualityDifference(
            SPEARMAN, one.varied, one.of, one.against, self.model, "", self.dataset, self.type, self.gold,
            change.value or 0.0, change.low, change.high, change.rows, change.clusters,
        )  # fmt: skip
