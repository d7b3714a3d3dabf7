"""Rank correlation of each metric with the reference statements, and FAS under ablations and other thresholds.

Ablations use the stored verdicts on pairs, so that no pair is judged again; all claims are decided at once by the rule
of `scores.verdict_of`. Intervals are by bootstrap over clusters within each group of answers. Source: FAS §5.3, §5.5,
Tables 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.bootstrap import estimate_weighted
from fdarx_core.evaluation.metrics import Codes, Mask, Numbers, divide
from fdarx_core.factuality.figures import ALL, RESAMPLES, FactualityRows, cluster_of
from fdarx_core.factuality.scores import fact_aligned_score
from fdarx_core.records import Difference, Estimate, Figure

Contrast = tuple[Numbers, Numbers]
"""Two measures to compare: ρ of the first minus ρ of the second, over the rows that have both."""


def spearman(
    measures: Sequence[Numbers | Contrast], other: Numbers, clusters: Sequence[str], *, seed: int, resamples: int
) -> list[Estimate]:
    """Return ρ of each measure with `other`, or the difference of two measures in ρ; NaN rows are left out.

    All arrays have one value for each row; `clusters` names the cluster of each row. All use the same samples of
    clusters. An estimate is None where one side has no two different values, and has no interval where all rows are in
    one cluster.
    """
    names, codes = np.unique(np.asarray(clusters, dtype=np.str_), return_inverse=True)
    groups: dict[bytes, tuple[Mask, _Ranks, dict[bytes, _Ranks]]] = {}  # distinct columns by the rows that they have
    asked: list[tuple[bytes, list[bytes]]] = []
    over: list[Mask] = []
    for measure in measures:
        sides = measure if isinstance(measure, tuple) else (measure,)
        here = ~np.isnan(np.vstack([other, *sides])).any(axis=0)
        group, columns = here.tobytes(), [side[here].tobytes() for side in sides]
        asked.append((group, columns))
        over.append(here)
        if here.any():
            _, _, ranked = groups.setdefault(group, (here, _ranks(other[here]), {}))
            for column, side in zip(columns, sides, strict=True):
                if column not in ranked:
                    ranked[column] = _ranks(side[here])
    if not len(names) or not asked:
        return [Estimate(None) for _ in asked]

    def values(weights: Numbers) -> Numbers:
        rhos: dict[tuple[bytes, bytes], Numbers] = {}
        for group, (here, others, ranked) in groups.items():
            mine = weights if here.all() else weights[:, here]
            totals = mine.sum(axis=1, keepdims=True)
            against, spread = _centred(others, mine, totals)
            against *= mine
            for column, ranks in ranked.items():
                deviations, width = _centred(ranks, mine, totals)
                rhos[group, column] = divide(np.einsum("sr,sr->s", deviations, against), np.sqrt(width * spread))
        nothing = np.full(len(weights), np.nan)
        found = [[rhos.get((group, column), nothing) for column in columns] for group, columns in asked]
        return np.column_stack([sides[0] - (sides[1] if len(sides) > 1 else 0.0) for sides in found])

    return estimate_weighted(values, codes.astype(np.int64), len(names), over, seed=seed, resamples=resamples)


_Ranks = tuple[Codes, Codes, Codes]
"""The rows of a column in sorted order, the starts of its runs of equal values, and the run of each row."""


def _ranks(values: Numbers) -> _Ranks:
    _, run_of, lengths = np.unique(values, return_inverse=True, return_counts=True)
    return np.argsort(run_of, kind="stable"), np.cumsum(lengths) - lengths, run_of


def _centred(ranks: _Ranks, weights: Numbers, totals: Numbers) -> tuple[Numbers, Numbers]:
    """Return mean ranks minus their mean, shape (samples, rows), and the sum of their squares over drawn rows."""
    order, starts, run_of = ranks
    times = np.take(weights, order, axis=1)
    if len(starts) < len(order):
        times = np.add.reduceat(times, starts, axis=1)
    centred = np.cumsum(times, axis=1)
    centred -= (times + totals) / 2
    return np.take(centred, run_of, axis=1), np.einsum("sr,sr,sr->s", times, centred, centred)


FULL, SINGLE, NO_RETRIEVAL = "full", "single", "no_retrieval"


AblationConfig = tuple[str, int, str]
"""The pairs that decide: those of a kind, down to a rank, by an engine."""


def configurations(rows: FactualityRows) -> dict[str, AblationConfig]:
    """Return the full configuration, its ablations and every other engine, if they were judged, by name.

    Source: FAS Table 4.
    """
    k, engine = rows.method.k, rows.method.engine
    others = [name for name in pc.unique(rows.pairs["engine"]).to_pylist() if name != engine]
    wanted = {
        FULL: ("evidence", k, engine),
        NO_RETRIEVAL: ("reference", 0, engine),
        **{name: ("evidence", k, name) for name in sorted(others)},
    }
    if k > 1:
        wanted[SINGLE] = ("evidence", 1, engine)
    return {name: chosen for name, chosen in wanted.items() if name == FULL or _chosen(rows.pairs, chosen).num_rows}


class AblationScores:
    """The highest probabilities of each claim in a configuration, from which the verdict at any threshold follows."""

    def __init__(self, rows: FactualityRows, configuration: AblationConfig) -> None:
        self._rows, self._claims = rows, column_of(rows, "claims")
        found = (
            _chosen(rows.pairs, configuration)
            .group_by(["answer_id", "claim_id"])
            .aggregate(
                [
                    ("entailment", "max"),
                    ("contradiction", "max"),
                    ("neutral", "min"),
                    ("entailment", "count", pc.CountOptions(mode="only_null")),
                    ("on_subject", "any"),
                ]
            )
        )
        numbers = {score.answer_id: at for at, score in enumerate(rows.scores)}
        self._answer_of = np.array([numbers.get(name, -1) for name in found["answer_id"].to_pylist()], dtype=np.int64)
        self._supported, self._contradicted, self._neutral = (
            found[name].fill_null(-1.0).to_numpy() for name in ("entailment_max", "contradiction_max", "neutral_min")
        )
        self._lacking = found["entailment_count"].to_numpy() > 0
        self._on_subject = found["on_subject_any"].to_numpy()

    def fas(self, threshold: float) -> Numbers:
        """Return FAS of each answer, in the order of the scores; NaN where it is missing."""
        method = self._rows.method
        support, contra, decided = self.shares(threshold)
        values = fact_aligned_score(method.weights, column_of(self._rows, "similarity"), support, contra)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = {"coverage": self._count(self._on_subject) / self._claims, "decided": decided}
        for name, least in method.floors.items():
            values[found[name] < least] = np.nan
        return values

    def shares(self, threshold: float) -> tuple[Numbers, Numbers, Numbers]:
        """Return Support, Contra and the share of decided claims of each answer; NaN where they have no meaning.

        A claim without any passage is undecided.
        """
        reaches = np.maximum(self._supported, self._contradicted) >= threshold
        supported = reaches & (self._supported >= self._contradicted)
        unscored = ~reaches & self._lacking
        decided = reaches | (~unscored & (self._neutral >= threshold))
        with np.errstate(invalid="ignore", divide="ignore"):
            decisions = self._count(decided)
            share = decisions / (self._claims - self._count(unscored))
            return self._count(supported) / decisions, self._count(reaches & ~supported) / decisions, share

    def _count(self, claims: Mask) -> Numbers:
        """Return the number of marked claims of each answer that has a score."""
        here = self._answer_of[claims & (self._answer_of >= 0)]
        return np.bincount(here, minlength=len(self._rows.scores)).astype(np.float64)


def _chosen(pairs: pa.Table, configuration: AblationConfig) -> pa.Table:
    kind, depth, engine = configuration
    return pairs.filter((pc.field("kind") == kind) & (pc.field("engine") == engine) & (pc.field("rank") <= depth))


def column_of(rows: FactualityRows, field: str) -> Numbers:
    """Return a field of all scores, NaN where a score has no value."""
    return np.array([getattr(score, field) for score in rows.scores], dtype=np.float64)


AGAINST = ("completeness", "stated_in_references")
"""The fields that the others are correlated with."""
RELATED = ("fas", "support", "contra", "similarity", "rouge_1", "rouge_2", "rouge_l", "bleu_4")
"""The fields that are correlated with `AGAINST`."""
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Source: FAS Table 5."""
SPEARMAN = "spearman"
"""The metric of differences between correlations."""

Measured = tuple[dict[str, str], Numbers]
"""The keys metric, configuration and threshold, and a value for each answer."""


def threshold_name(threshold: float) -> str:
    """Return a threshold as the key of a figure."""
    return f"{threshold:.12g}"


def correlations(
    rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES
) -> tuple[list[Figure], list[Difference]]:
    """Return Spearman's ρ of the metrics with the measures of reference statements, and differences of ρ.

    A figure is ρ of its metric; its keys are against (completeness or stated_in_references), configuration (full,
    single, no_retrieval or the name of another engine), threshold (of the verdicts), dataset, type and model. Every
    metric is correlated by dataset, question type and model; FAS for each configuration and threshold too, over all
    answers and by dataset. Differences are of FAS from the full configuration at the threshold of the run, and of FAS
    from other metrics, on the answers that both can score. Groups without reference statements are left out.
    """
    names = {field: name for name, field in rows.fields.items()}
    own = threshold_name(rows.method.threshold)
    metrics: list[Measured] = [
        ({"metric": names[field], "configuration": FULL, "threshold": own}, column_of(rows, field)) for field in RELATED
    ]
    whole, *variants = _variants(rows)
    changes = [("metric", metrics[0], metric) for metric in metrics[1:] if not metric[0]["metric"].startswith("contra")]
    key_of = {FULL: "threshold"}
    changes += [(key_of.get(variant[0]["configuration"], "configuration"), variant, whole) for variant in variants]
    clusters = np.array([cluster_of(score) for score in rows.scores])
    found: list[Figure] = []
    changed: list[Difference] = []
    for against in AGAINST:
        values = column_of(rows, against)
        for group, here in _groups(rows, ~np.isnan(values)):
            everyone = group["type"] == group["model"] == ALL
            measured, compared = ([*metrics, *variants], changes) if everyone else (metrics, [])
            columns = [column[here] for _, column in measured]
            contrasts = [(first[here], other[here]) for _, (_, first), (_, other) in compared]
            related = spearman(
                [*columns, *contrasts], values[here], clusters[here].tolist(), seed=seed, resamples=resamples
            )
            for (keys, _), rho in zip(measured, related, strict=False):
                if rho.rows:
                    named = {name: value for name, value in keys.items() if name != "metric"}
                    found.append(Figure.of(keys["metric"], {"against": against, **named, **group}, rho))
            for (varied, (first, _), (second, _)), rho in zip(compared, related[len(columns) :], strict=True):
                if rho.value is not None:
                    sides = {"first": {varied: first[varied]}, "second": {varied: second[varied]}}
                    changed.append(Difference.of(SPEARMAN, {"against": against, **group}, rho, **sides))
    return found, changed


def _variants(rows: FactualityRows) -> list[Measured]:
    """Return FAS of the full configuration, then of other configurations, then at other thresholds."""
    readings = {name: AblationScores(rows, configuration) for name, configuration in configurations(rows).items()}
    own = rows.method.threshold
    wanted = [(name, own) for name in readings]
    wanted += [(FULL, threshold) for threshold in THRESHOLDS if not np.isclose(threshold, own)]
    return [
        ({"metric": rows.method.fas, "configuration": name, "threshold": threshold_name(at)}, readings[name].fas(at))
        for name, at in wanted
    ]


def _groups(rows: FactualityRows, measured: Mask) -> Iterator[tuple[dict[str, str], Mask]]:
    """Yield all measured answers, then those of each dataset, question type and model."""
    if not measured.any():
        return
    every = dict.fromkeys(("dataset", "type", "model"), ALL)
    yield every, measured
    for key in every:
        column = np.array([getattr(score, key) for score in rows.scores])
        for name in np.unique(column[measured]):
            if name:
                yield {**every, key: str(name)}, measured & (column == name)
