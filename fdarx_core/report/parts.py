"""A run read part by part, each part with all kinds of rows of its labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from fdarx_core.records import Passage, QuestionAnswer, Reject, arrow_schema
from fdarx_core.storage import Location, RunDirectory, read_table

_COLUMNS: dict[str, pa.Schema] = {
    "labels": pa.schema([("set_id", pa.string())]),
    "passages": arrow_schema(Passage),
    "candidates": pa.schema([(name, pa.string()) for name in ("id", "type", "question", "answer")]),
    "questions": arrow_schema(QuestionAnswer),
    "rejects": arrow_schema(Reject),
}


@dataclass(frozen=True, slots=True)
class Part:
    """The rows that one group of labels left in each folder of the run; a kind without rows is an empty table."""

    labels: pa.Table
    passages: pa.Table
    candidates: pa.Table
    questions: pa.Table
    rejects: pa.Table


def read_parts(run: RunDirectory) -> Iterator[Part]:
    """The parts of a run in the order of their names, one in memory at a time, with only the columns a report needs."""
    found = {kind: {location.name: location for location in run.parts(kind)} for kind in _COLUMNS}
    for name in sorted({name for names in found.values() for name in names}):
        yield Part(**{kind: _read(found[kind].get(name), schema) for kind, schema in _COLUMNS.items()})


def _read(location: Location | None, schema: pa.Schema) -> pa.Table:
    return schema.empty_table() if location is None else read_table(location, schema.names)
