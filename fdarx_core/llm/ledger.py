"""What asking took: requests, tokens, cost and time, a row a task and endpoint, from what the store holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.llm.models import ModelConfig
from fdarx_core.llm.store import ResponseStore
from fdarx_core.records import Response, arrow_schema

_TOKENS = ["prompt_tokens", "cached_tokens", "completion_tokens", "written_tokens"]
_COLUMNS = ["task", "endpoint", "reason", "attempts", *_TOKENS, "latency_s"]


@dataclass(slots=True)
class LedgerRow:
    """One task at one endpoint. `retries` are attempts beyond the first; `failed` the responses that hold no answer.

    Tokens are as the server counted them; `cost` is in USD, None where the model has no prices; latencies in seconds.
    """

    task: str
    endpoint: str
    requests: int
    retries: int
    failed: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: float | None
    latency_p50: float
    latency_p95: float
    latency_p99: float


def ledger(store: ResponseStore, models: Mapping[str, ModelConfig]) -> list[LedgerRow]:
    """A row for each task and endpoint in the store, by name."""
    tables = list(store.tables(_COLUMNS))
    if not tables:
        return []
    columns = pa.schema([arrow_schema(Response).field(name) for name in _COLUMNS])  # runs of old lack some
    rows = pa.concat_tables([columns.empty_table(), *tables], promote_options="default")
    pairs = rows.group_by(["task", "endpoint"]).aggregate([]).to_pylist()
    return [_row(rows, task, endpoint, models) for task, endpoint in sorted((p["task"], p["endpoint"]) for p in pairs)]


def _row(rows: pa.Table, task: str, endpoint: str, models: Mapping[str, ModelConfig]) -> LedgerRow:
    own = rows.filter((pc.field("task") == task) & (pc.field("endpoint") == endpoint))
    prompt, cached, completion, written = (int(pc.sum(own[name], min_count=0).as_py()) for name in _TOKENS)
    p50, p95, p99 = (round(value, 3) for value in pc.quantile(own["latency_s"], [0.5, 0.95, 0.99]).to_pylist())
    return LedgerRow(
        task=task,
        endpoint=endpoint,
        requests=own.num_rows,
        retries=int(pc.sum(own["attempts"]).as_py()) - own.num_rows,
        failed=int(pc.sum(pc.not_equal(own["reason"], "")).as_py()),
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
        cost=_cost(models.get(endpoint), prompt, cached, completion, written),
        latency_p50=p50,
        latency_p95=p95,
        latency_p99=p99,
    )


def _cost(model: ModelConfig | None, prompt: int, cached: int, completion: int, written: int) -> float | None:
    if model is None or model.prices is None:
        return None
    counted = Response("", "", 0, model.name, "", prompt_tokens=prompt, completion_tokens=completion)
    counted.cached_tokens, counted.written_tokens = cached, written
    return model.prices.cost(counted)
