"""What asking took, from the store."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fdarx_core.llm import ModelConfig, Prices, ResponseStore
from fdarx_core.llm.ledger import ledger
from fdarx_core.records import Response
from fdarx_core.storage import Location


def response(key: str, written: int) -> Response:
    return Response(key, "t", 1, "m", "yes", "", "stop", 1000, 10, 0.5, 100, 2, written)


@pytest.mark.parametrize("old", [False, True])
def test_tokens_written_to_a_cache_are_paid_for(tmp_path: Path, old: bool) -> None:
    """Segments of runs from before they were counted lack the column."""
    store = ResponseStore(Location(tmp_path))
    store.put([response("a", 0)])
    [first] = tmp_path.rglob("*.parquet")
    if old:
        pq.write_table(pq.read_table(first).drop_columns("written_tokens"), first)
    if not old:
        store.put([response("b", 800)])
    model = ModelConfig(
        name="m", model="m", base_url="http://localhost", prices=Prices(input=10, cache_write=20, output=0)
    )
    [row] = ledger(ResponseStore(store.root), {"m": model})
    assert (row.requests, row.retries) == ((1, 1) if old else (2, 2))
    assert row.cost == pytest.approx((1000 if old else 2000) * 10e-6 + (0 if old else 800 * 10e-6))
