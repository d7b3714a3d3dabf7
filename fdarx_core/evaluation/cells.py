"""How far each cell of the sweep came, counted from its Score rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.aggregates.answers import graded
from fdarx_core.evaluation.aggregates.columns import Columns, Numbers
from fdarx_core.evaluation.cell import CellKey
from fdarx_core.records import Cell


def cells_of(cells: Iterable[Cell], scores: Mapping[CellKey, pa.Table]) -> list[Cell]:
    """The cells with counts, tokens, cost and latencies filled in; a cell without Score rows stays as it is.

    The caller sets the cell's name, status, reason and due. Latencies are of questions that got a reply; `cost` is the
    sum of what has a price.
    """
    return [_filled(cell, scores.get(CellKey(cell.model, cell.setting, cell.retriever))) for cell in cells]


def _filled(cell: Cell, table: pa.Table | None) -> Cell:
    if table is None or not table.num_rows:
        return cell
    columns = Columns(table)
    outcomes = Counter(columns.strings("outcome").tolist())
    latencies = columns.number("latency_s")[~columns.is_in("outcome", "failed")]
    return replace(
        cell,
        answered=outcomes["answered"],
        refused=outcomes["refused"],
        unparsed=outcomes["unparsed"],
        failed=outcomes["failed"],
        prompt_tokens=_total(table, "prompt_tokens"),
        cached_tokens=_total(table, "cached_tokens"),
        completion_tokens=_total(table, "completion_tokens"),
        unscored=int(np.count_nonzero(~graded(columns))),
        cost=pc.sum(table["cost"]).as_py(),
        latency_p50=_quantile(latencies, 0.50),
        latency_p95=_quantile(latencies, 0.95),
    )


def _total(table: pa.Table, name: str) -> int:
    return int(pc.sum(table[name]).as_py() or 0)


def _quantile(values: Numbers, share: float) -> float | None:
    return float(np.quantile(values, share)) if len(values) else None
