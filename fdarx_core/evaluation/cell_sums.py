"""What figures need of the rows of a cell, in a form that adds up over parts of the rows: counts, and sums by cluster.

Figures take two passes over the parts. The first counts (`CellCounts`): which columns have values, which categories
have enough questions, how long the labels are. The second sums up the slices that follow from this (`ClusterSums`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.bootstrap import PairedSums, SliceSums
from fdarx_core.evaluation.metrics import CellFacts, Metric, Numbers, ScoreColumns, graded
from fdarx_core.records import SettingProgress

_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
_OUTCOMES = ("answered", "refused", "unparsed", "failed")
_EVIDENCE = ("cut", "gold_due", "gold_shown")


@dataclass(slots=True)
class CellCounts:
    """Counts of some rows of a cell, of Score or RetrievalScore.

    `names` has all questions by category and the answerable ones by section, `lengths` the characters of each label.
    The fields from `outcomes` on are of Score rows; `latencies` are of questions with a reply.
    """

    rows: int = 0
    facts: CellFacts = field(default_factory=lambda: CellFacts(frozenset(), False))
    names: dict[str, Counter[str]] = field(default_factory=lambda: {"category": Counter(), "section": Counter()})
    lengths: dict[str, int] = field(default_factory=dict)
    clusters: set[str] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    cost: float | None = None
    unscored: int = 0
    evidence: Counter[str] = field(default_factory=Counter)
    latencies: Numbers = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, table: pa.Table) -> CellCounts:
        """Return the counts of the rows of a table."""
        columns = ScoreColumns(table)
        answerable = ~columns.is_in("type", "refusal")
        names = {
            "category": Counter(columns.strings("category").tolist()),
            "section": Counter(columns.strings("section")[answerable].tolist()),
        }
        made = cls(table.num_rows, columns.facts, names, label_lengths(table), set(columns.clusters))
        if "outcome" in table.column_names:
            made.outcomes.update(columns.strings("outcome").tolist())
            made.tokens.update({name: int(pc.sum(table[name]).as_py() or 0) for name in _TOKENS})
            made.cost = pc.sum(table["cost"]).as_py()
            made.unscored = int(np.count_nonzero(~graded(columns)))
            made.evidence.update(_evidence(table))
            made.latencies = columns.number("latency_s")[~columns.is_in("outcome", "failed")]
        return made

    @classmethod
    def total(cls, parts: Iterable[CellCounts]) -> CellCounts:
        """Add up the counts of parts."""
        total, latencies = cls(), [np.empty(0)]
        for one in parts:
            total.rows += one.rows
            facts = total.facts
            total.facts = CellFacts(facts.measured | one.facts.measured, facts.refusals or one.facts.refusals)
            for by, counts in one.names.items():
                total.names[by].update(counts)
            total.lengths |= one.lengths
            total.clusters |= one.clusters
            total.outcomes.update(one.outcomes)
            total.tokens.update(one.tokens)
            if one.cost is not None:
                total.cost = (total.cost or 0.0) + one.cost
            total.unscored += one.unscored
            total.evidence.update(one.evidence)
            latencies.append(one.latencies)
        total.latencies = np.concatenate(latencies)
        return total

    def fill(self, cell: SettingProgress) -> SettingProgress:
        """Return the cell with these counts, tokens, cost and latencies, unchanged if there are no rows."""
        if not self.rows:
            return cell
        known = len(self.latencies)
        p50, p95 = (float(np.quantile(self.latencies, share)) if known else None for share in (0.50, 0.95))
        counted: dict[str, Any] = {name: self.outcomes[name] for name in _OUTCOMES}
        counted |= {name: self.tokens[name] for name in _TOKENS}
        counted |= {name: self.evidence[name] for name in _EVIDENCE}
        return replace(cell, **counted, unscored=self.unscored, cost=self.cost, latency_p50=p50, latency_p95=p95)


def _evidence(table: pa.Table) -> dict[str, int]:
    """Return the counts of `SettingProgress` of questions by the evidence that was shown."""
    shown, gold = table["gold_shown"], table["gold"]
    found = {
        "cut": pc.greater(table["cuts"], 0),
        "gold_due": pc.is_valid(shown),
        "gold_shown": pc.equal(shown, gold),
    }
    return {name: int(pc.sum(one).as_py() or 0) for name, one in found.items()}


def label_lengths(table: pa.Table) -> dict[str, int]:
    """Return label_characters by set id."""
    distinct = table.select(["set_id", "label_characters"]).group_by(["set_id", "label_characters"]).aggregate([])
    return dict(zip(*(distinct[name].to_pylist() for name in ("set_id", "label_characters")), strict=True))


class ClusterSums:
    """Adds up matrices with a row for each cluster and the same columns.

    Add them in a fixed order: the order of additions changes the last digits of a sum.
    """

    def __init__(self) -> None:
        self._row_of: dict[str, int] = {}
        self._sums: Numbers = np.empty((0, 0))

    def add(self, clusters: Sequence[str], sums: Numbers) -> None:
        """Add a matrix, whose rows are of these clusters, each once."""
        rows = [self._row_of.setdefault(one, len(self._row_of)) for one in clusters]
        if len(self._row_of) > len(self._sums):
            room = np.zeros((2 * len(self._row_of), sums.shape[1]))
            room[: len(self._sums)] = self._sums.reshape(len(self._sums), sums.shape[1])
            self._sums = room
        self._sums[rows] += sums

    def ordered(self) -> Numbers:
        """Return the sums, with the clusters in ascending order."""
        return self._sums[[self._row_of[one] for one in sorted(self._row_of)]]


def pack_slices(slices: Sequence[SliceSums]) -> Numbers:
    """Return the sums of slices over the same clusters as one matrix; a slice has its components and two counts."""
    return np.column_stack([column for one in slices for column in (one.sums, one.rows, one.unscored)])


def unpack_slices(matrix: Numbers, metrics: Sequence[Metric], widths: Sequence[int]) -> list[SliceSums]:
    """Return the slices of a matrix of `pack_slices`; `widths` are the numbers of components."""
    slices, at = [], 0
    for metric, width in zip(metrics, widths, strict=True):
        sums = matrix[:, at : at + width]
        slices.append(SliceSums(metric, sums, matrix[:, at + width], matrix[:, at + width + 1]))
        at += width + 2
    return slices


def pack_pairs(pairs: Sequence[PairedSums]) -> Numbers:
    """Return the sums of pairs over the same clusters as one matrix; a pair has its components twice, and a count."""
    return np.column_stack([column for one in pairs for column in (one.first, one.second, one.rows)])


def unpack_pairs(matrix: Numbers, metrics: Sequence[Metric], widths: Sequence[int]) -> list[PairedSums]:
    """Return the pairs of a matrix of `pack_pairs`; `widths` are the numbers of components."""
    pairs, at = [], 0
    for metric, width in zip(metrics, widths, strict=True):
        first, second = (matrix[:, start : start + width] for start in (at, at + width))
        pairs.append(PairedSums(metric, first, second, matrix[:, at + 2 * width]))
        at += 2 * width + 1
    return pairs
