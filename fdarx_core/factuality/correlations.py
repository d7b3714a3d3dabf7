"""Rank correlation of each metric with gold factuality, and FAS under ablations and other thresholds.

Ablations use the stored verdicts on pairs, so that no pair is judged again; all claims are decided at once by the rule
of `scores.verdict_of`. Intervals are by bootstrap over clusters within each group of answers. Source: FAS §5.3, §5.5,
Tables 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.metrics import Codes, Mask, Numbers
from fdarx_core.evaluation.rank_correlation import spearman
from fdarx_core.factuality.figures import ALL, RESAMPLES, FactualityRows, cluster_of
from fdarx_core.factuality.scores import fact_aligned_score
from fdarx_core.records import Difference, Figure

FULL, SINGLE, NO_RETRIEVAL = "full", "single", "no_retrieval"


AblationConfig = tuple[str, int, str]
"""The pairs that decide: those of a kind, down to a rank, by an engine."""


def configurations(rows: FactualityRows) -> dict[str, AblationConfig]:
    """Return the full configuration, its ablations and every other engine, if they were judged, by name.

    Source: FAS Table 4.
    """
    others = [name for name in pc.unique(rows.pairs["engine"]).to_pylist() if name != rows.engine]
    wanted = {
        FULL: ("evidence", rows.k, rows.engine),
        NO_RETRIEVAL: ("reference", 0, rows.engine),
        **{name: ("evidence", rows.k, name) for name in sorted(others)},
    }
    if rows.k > 1:
        wanted[SINGLE] = ("evidence", 1, rows.engine)
    return {name: one for name, one in wanted.items() if name == FULL or _chosen(rows.pairs, one).any()}


class AblationScores:
    """The highest probabilities of each claim in a configuration, from which the verdict at any threshold follows."""

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
        """Return FAS of each answer, in the order of the scores; NaN where a term with a weight is missing."""
        similarity = np.array([_or_nan(score.similarity) for score in self._rows.scores])
        return fact_aligned_score(self._rows.weights, similarity, *self.shares(threshold))

    def shares(self, threshold: float) -> tuple[Numbers, Numbers]:
        """Return Support and Contra of each answer; NaN where no claim has a verdict.

        A claim without any passage is unsupported.
        """
        surest = np.maximum(self._supported, self._contradicted)
        decided = surest >= threshold
        supported = decided & (self._supported >= self._contradicted)
        unscored = ~decided & self._lacking
        claims = np.array([score.claims for score in self._rows.scores], dtype=np.float64)
        with_verdict = claims - self._count(unscored)
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._count(supported) / with_verdict, self._count(decided & ~supported) / with_verdict

    def _count(self, claims: Mask) -> Numbers:
        """Return the number of marked claims of each answer that has a score."""
        here = self._answer_of[claims & (self._answer_of >= 0)]
        return np.bincount(here, minlength=len(self._rows.scores)).astype(np.float64)


def _chosen(pairs: pa.Table, one: AblationConfig) -> Mask:
    kind, depth, engine = one
    here = _is(pairs, "kind", kind) & _is(pairs, "engine", engine) & (pairs["rank"].to_numpy() <= depth)
    return np.asarray(here, dtype=np.bool_)


def _is(pairs: pa.Table, name: str, value: str) -> Mask:
    return np.asarray(pc.equal(pairs[name], value).to_numpy(), dtype=np.bool_)


def _floats(column: pa.ChunkedArray) -> Numbers:
    """Return the column as floats, NaN where there is no judgment."""
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _highest(values: Numbers, claim_of: Codes, claims: int) -> Numbers:
    """Return the highest value among the judged pairs of each claim; -1 where none was judged."""
    found = np.full(claims, -1.0)
    np.fmax.at(found, claim_of, values)
    return found


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def column_of(rows: FactualityRows, field: str) -> Numbers:
    """Return a field of all scores, NaN where a score has no value."""
    values: Sequence[float | None] = [getattr(score, field) for score in rows.scores]
    return np.array([_or_nan(value) for value in values], dtype=np.float64)


GOLDS = ("gold", "gold_claims")
RELATED = ("fas", "support", "contra", "similarity", "rouge_1", "rouge_2", "rouge_l", "bleu_4")
"""The fields that are correlated with gold factuality."""
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
    """Return Spearman's ρ of the metrics with gold factuality over answers, and differences of ρ.

    A figure is ρ of its metric; its keys are gold (gold or gold_claims), configuration (full, single, no_retrieval or
    the name of another engine), threshold (of the verdicts), dataset, type and model. Every metric is correlated by
    dataset, question type and model; FAS for each configuration and threshold too, over all answers and by dataset.
    Differences are of FAS from the full configuration at the threshold of the run, and of FAS from other metrics, on
    the answers that both can score. Groups without gold are left out.
    """
    names = {field: name for name, field in rows.fields.items()}
    own = threshold_name(rows.threshold)
    metrics: list[Measured] = [
        ({"metric": names[field], "configuration": FULL, "threshold": own}, column_of(rows, field)) for field in RELATED
    ]
    whole, *variants = _variants(rows)
    changes = [("metric", metrics[0], one) for one in metrics[1:] if not one[0]["metric"].startswith("contra")]
    changes += [("threshold" if one[0]["configuration"] == FULL else "configuration", one, whole) for one in variants]
    clusters = np.array([cluster_of(score) for score in rows.scores])
    found: list[Figure] = []
    changed: list[Difference] = []
    for gold in GOLDS:
        values = column_of(rows, gold)
        for group, here in _groups(rows, ~np.isnan(values)):
            everyone = group["type"] == group["model"] == ALL
            measured, compared = ([*metrics, *variants], changes) if everyone else (metrics, [])
            columns = [column[here] for _, column in measured]
            contrasts = [(one[here], other[here]) for _, (_, one), (_, other) in compared]
            related = spearman(
                [*columns, *contrasts], values[here], clusters[here].tolist(), seed=seed, resamples=resamples
            )
            for (keys, _), one in zip(measured, related, strict=False):
                if one.rows:
                    named = {name: value for name, value in keys.items() if name != "metric"}
                    found.append(Figure.of(keys["metric"], {"gold": gold, **named, **group}, one))
            for (varied, (first, _), (second, _)), one in zip(compared, related[len(columns) :], strict=True):
                if one.value is not None:
                    sides = {"first": {varied: first[varied]}, "second": {varied: second[varied]}}
                    changed.append(Difference.of(SPEARMAN, {"gold": gold, **group}, one, **sides))
    return found, changed


def _variants(rows: FactualityRows) -> list[Measured]:
    """Return FAS of the full configuration, then of other configurations, then at other thresholds."""
    readings = {name: AblationScores(rows, one) for name, one in configurations(rows).items()}
    wanted = [(name, rows.threshold) for name in readings]
    wanted += [(FULL, threshold) for threshold in THRESHOLDS if not np.isclose(threshold, rows.threshold)]
    return [
        ({"metric": "fas", "configuration": name, "threshold": threshold_name(at)}, readings[name].fas(at))
        for name, at in wanted
    ]


def _groups(rows: FactualityRows, has_gold: Mask) -> Iterator[tuple[dict[str, str], Mask]]:
    """Yield all answers, then those of each dataset, question type and model, where there is gold."""
    if not has_gold.any():
        return
    every = dict.fromkeys(("dataset", "type", "model"), ALL)
    yield every, has_gold
    for key in every:
        column = np.array([getattr(score, key) for score in rows.scores])
        for name in np.unique(column[has_gold]):
            if name:
                yield {**every, key: str(name)}, has_gold & (column == name)
