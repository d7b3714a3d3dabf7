"""The ledger of a response store: requests, tokens, cost and latencies, added up from sums of each segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.task import UNDECIDED
from fdarx_core.records import Response

if TYPE_CHECKING:
    from fdarx_core.llm.response_store import ResponseStore

_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "written_tokens")
_SUMS = ("requests", "attempts", "failed", *_TOKENS)
_GROUPS = ("task", "endpoint", "batched", "latency_s")
USAGE_COLUMNS = ["task", "endpoint", "reason", "attempts", *_TOKENS, "latency_s", "batched"]
"""The columns of Response that `usage_of` reads; a segment of an earlier version may lack counts."""

NO_USAGE = pa.schema(
    [("task", pa.string()), ("endpoint", pa.string()), ("batched", pa.bool_()), ("latency_s", pa.float64())]
    + [(name, pa.int64()) for name in _SUMS]
).empty_table()
"""The sums over no responses."""


def usage_of(responses: pa.Table) -> pa.Table:
    """Return the sums of some Response rows by task, endpoint, way of sending, and latency of three significant digits.

    The sums of all responses have as many rows as there are distinct latencies, however many responses there are.
    Raises KeyError for a table without a task or an endpoint.
    """
    rows = responses.num_rows
    undisturbed = pc.is_in(responses["reason"], value_set=pa.array(["", UNDECIDED]))
    columns: dict[str, Any] = {
        "task": responses["task"],
        "endpoint": responses["endpoint"],
        "batched": _counts(responses, "batched", False),
        "latency_s": _three_digits(responses["latency_s"].to_numpy()),
        "requests": pa.repeat(pa.scalar(1, pa.int64()), rows),
        "attempts": _counts(responses, "attempts", 1),
        "failed": pc.cast(pc.invert(undisturbed), pa.int64()),
        **{name: _counts(responses, name, 0) for name in _TOKENS},
    }
    return add_usage([pa.table(columns)])


def add_usage(sums: Iterable[pa.Table]) -> pa.Table:
    """Add up tables of `usage_of`."""
    table = pa.concat_tables([NO_USAGE, *(one.select(NO_USAGE.column_names) for one in sums)])
    added = table.group_by(list(_GROUPS)).aggregate([(name, "sum") for name in _SUMS])
    return added.rename_columns([name.removesuffix("_sum") for name in added.column_names]).cast(NO_USAGE.schema)


def ledger(store: ResponseStore, models: Mapping[str, ModelConfig]) -> list[dict[str, Any]]:
    """Return a row for each task and endpoint in the store, sorted by name, as `run.json` has it.

    `failed` counts responses without a reply, undecided ones aside, `retries` all attempts beyond the first. Tokens
    are the server's counts, `cost` is in US dollars (None without prices), latencies are in seconds and have three
    significant digits. `batched` counts the responses that came by a batch API.
    """
    usage = store.usage()
    pairs = usage.group_by(["task", "endpoint"]).aggregate([]).to_pylist()
    return [_row(usage, task, endpoint, models) for task, endpoint in sorted((p["task"], p["endpoint"]) for p in pairs)]


def _row(usage: pa.Table, task: str, endpoint: str, models: Mapping[str, ModelConfig]) -> dict[str, Any]:
    own = usage.filter((pc.field("task") == task) & (pc.field("endpoint") == endpoint))
    sums = {name: int(pc.sum(own[name]).as_py()) for name in _SUMS}
    direct, batched = (_sum_up(own.filter(chosen)) for chosen in (pc.invert(own["batched"]), own["batched"]))
    batched.batched = True
    p50, p95, p99 = _quantiles(own, (0.5, 0.95, 0.99))
    model = models.get(endpoint)
    return {
        "task": task,
        "endpoint": endpoint,
        "requests": sums["requests"],
        "retries": sums["attempts"] - sums["requests"],
        "failed": sums["failed"],
        "batched": int(pc.sum(own.filter(own["batched"])["requests"], min_count=0).as_py()),
        "prompt_tokens": sums["prompt_tokens"],
        "cached_tokens": sums["cached_tokens"],
        "completion_tokens": sums["completion_tokens"],
        "cost": model.prices.cost(direct) + model.prices.cost(batched) if model and model.prices else None,
        "latency_p50": p50,
        "latency_p95": p95,
        "latency_p99": p99,
    }


def _sum_up(usage: pa.Table) -> Response:
    """Return a response that has all tokens of some sums."""
    total = Response("", "", 0, "", "")
    for name in _TOKENS:
        setattr(total, name, int(pc.sum(usage[name], min_count=0).as_py()))
    return total


def _quantiles(usage: pa.Table, shares: Sequence[float]) -> list[float]:
    """Return quantiles of the latencies by linear interpolation between neighbours, as `numpy.quantile` does."""
    ordered = usage.sort_by("latency_s")
    values, ends = ordered["latency_s"].to_numpy(), np.cumsum(ordered["requests"].to_numpy())
    found = []
    for share in shares:
        position = share * (ends[-1] - 1)
        below, above = (
            values[np.searchsorted(ends, edge, "right")] for edge in (np.floor(position), np.ceil(position))
        )
        found.append(round(float(below + (above - below) * (position % 1)), 3))
    return found


def _counts(table: pa.Table, name: str, default: int | bool) -> Any:
    if name not in table.column_names:
        return pa.repeat(pa.scalar(default), table.num_rows)
    return pc.fill_null(table[name], default)


def _three_digits(latencies: Any) -> Any:
    digits = np.floor(np.log10(np.maximum(latencies, 1e-9))) - 2
    return pa.array(np.rint(latencies / 10.0**digits) * 10.0**digits, pa.float64())
