"""What FAS would have been with other passages, another engine or another threshold, from the pairs that were judged.

Nothing is judged again; all claims of a run are decided at once, by the rule of `verdicts.verdict_of`.
Source: FAS §5.5, Tables 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.aggregates import Codes, Mask, Numbers
from fdarx_core.factuality.rows import FactualityRows
from fdarx_core.factuality.scores import fact_aligned_score

FULL, SINGLE, NO_RETRIEVAL = "full", "single", "no_retrieval"


@dataclass(frozen=True, slots=True)
class Configuration:
    """Which pairs decide: those of a kind, down to a rank, by an engine. `name` is as in `Correlation`."""

    name: str
    kind: str
    depth: int
    engine: str


def configurations(rows: FactualityRows) -> list[Configuration]:
    """The whole, its ablations and every other engine, of those that were judged; the whole goes first.

    Source: FAS Table 4.
    """
    others = [name for name in pc.unique(rows.pairs["engine"]).to_pylist() if name != rows.engine]
    wanted = [
        Configuration(FULL, "evidence", rows.k, rows.engine),
        Configuration(NO_RETRIEVAL, "reference", 0, rows.engine),
        *(Configuration(name, "evidence", rows.k, name) for name in sorted(others)),
        *([Configuration(SINGLE, "evidence", 1, rows.engine)] if rows.k > 1 else []),
    ]
    return [one for one in wanted if one.name == FULL or _chosen(rows.pairs, one).any()]


class Rereading:
    """The claims of a configuration, each with its surest pair, whatever the threshold is."""

    def __init__(self, rows: FactualityRows, configuration: Configuration) -> None:
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


def _chosen(pairs: pa.Table, one: Configuration) -> Mask:
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
