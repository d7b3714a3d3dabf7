"""How anything travels through Ray Data: one row a part, what it holds pickled into one flat binary column."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa


def packed(items: Any, part: int = 0) -> pa.Table:
    """A block of one row: Ray sees a flat column, whose size it knows, and never what is in it."""
    return pa.table({"part": [part], "items": pa.array([pickle.dumps(items, protocol=5)], pa.large_binary())})


def unpacked(row: dict[str, Any]) -> Any:
    """What `packed` put into a row."""
    return pickle.loads(row["items"])


def each_row(block: pa.Table, function: Callable[[int, Any], Any]) -> pa.Table:
    """`function(part, items)` on every row: a block has one unless Ray joined some; a part stays a row all the way."""
    return pa.concat_tables([packed(function(row["part"], unpacked(row)), row["part"]) for row in block.to_pylist()])


async def each_row_async(block: pa.Table, function: Callable[[Any], Awaitable[Any]]) -> pa.Table:
    """`function(items)` on every row, awaited."""
    rows = block.to_pylist()
    return pa.concat_tables([packed(await function(unpacked(row)), row["part"]) for row in rows])
