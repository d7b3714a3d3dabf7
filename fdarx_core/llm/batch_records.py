"""The batches of a run on disk or S3, by which a process finds those that an earlier one submitted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import uuid4

import orjson

from fdarx_core.llm.wire_formats import ServerFeatures
from fdarx_core.storage import Location, StorageError


@dataclass(slots=True)
class BatchRecord:
    """One batch. It is written before the batch is submitted, without an `id`, and again once the server gave one.

    Args:
        model: the name of the model in the run.
        base_url: the address of the server.
        custom_ids: the ids of its requests, each with the key of a request in it.
        features: what requests of each task use of the server, as fields of `ServerFeatures`.
        name: identifies the batch before it has an id.
        created_at: seconds since the epoch.
        results: how many requests ended in which way; empty until the results are read.
    """

    model: str
    base_url: str
    custom_ids: list[str] = field(default_factory=list)
    features: dict[str, dict[str, Any]] = field(default_factory=dict)
    name: str = ""
    created_at: float = 0.0
    id: str = ""
    results: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.created_at = self.created_at or time.time()
        self.name = self.name or f"{int(self.created_at * 1000):013d}-{uuid4().hex[:12]}"

    def learned(self) -> dict[str, ServerFeatures]:
        """Return the features by task."""
        return {task: ServerFeatures(**fields) for task, fields in self.features.items()}


class BatchRecords:
    """The records of a run's batches, `RUN/batches/NAME.json`. They hold no texts and no key."""

    def __init__(self, root: Location) -> None:
        self._root = root

    def load(self) -> list[BatchRecord]:
        """Return all records in the order of their creation. Raises StorageError for one that is damaged."""
        return [_read(file) for file in self._root.list() if file.suffix == ".json"]

    def write(self, record: BatchRecord) -> None:
        """Write a record. Raises StorageError."""
        self._file(record).write_bytes(orjson.dumps(asdict(record)))

    def delete(self, record: BatchRecord) -> None:
        """Delete the record of a batch that was never submitted. Raises StorageError."""
        self._file(record).delete()

    def uncollected(self) -> Mapping[str, int]:
        """Return how many requests are in batches whose results were not read, by batch."""
        return {record.id or record.name: len(record.custom_ids) for record in self.load() if not record.results}

    def _file(self, record: BatchRecord) -> Location:
        return self._root / f"{record.name}.json"


def _read(file: Location) -> BatchRecord:
    try:
        return BatchRecord(**orjson.loads(file.read_bytes()))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise StorageError(
            f"{file} is damaged ({error}); delete it, and the requests of that batch are sent and paid for again"
        ) from error
