"""Two runs of the same job in different places, file by file."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.parquet as pq

from fdarx_core.storage import Location

TIMED = {"run.json", "report.html"}
"""They say when the run was, how long it took, and where it stands."""


def differing(one: Location, other: Location, placed: Mapping[str, str]) -> list[str]:
    """The names of files that differ, or that only one of the runs has.

    Parquet files whose bytes differ are compared by rows, in which every prefix of `placed` stands for its value.
    """
    ours, theirs = _files(one), _files(other)
    return sorted(
        name
        for name in ours.keys() | theirs.keys()
        if name not in ours or name not in theirs or not _same(ours[name], theirs[name], placed)
    )


def _files(run: Location) -> dict[str, Location]:
    return {str(file).removeprefix(f"{run}/"): file for file in run.list(recursive=True)}


def _same(one: Location, other: Location, placed: Mapping[str, str]) -> bool:
    if one.read_bytes() == other.read_bytes():
        return True
    return one.suffix == ".parquet" and _rows(one, placed) == _rows(other, placed)


def _rows(file: Location, placed: Mapping[str, str]) -> str:
    with file.open_input() as stream:
        rows = repr(pq.read_table(stream).to_pylist())
    for prefix, name in placed.items():
        rows = rows.replace(prefix, name)
    return rows
