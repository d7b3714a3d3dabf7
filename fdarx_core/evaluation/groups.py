"""The groups of questions that figures are given for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.aggregates import Columns, Mask

TYPES = ("factual", "multihop", "refusal")
SMALLEST = 10
"""Questions that a category or section needs to stand alone; smaller ones go together as `OTHER`."""
OTHER = "other"
LENGTHS = ("short", "medium", "long")

Edges = tuple[float, float]
"""Characters up to which a label is short, and up to which it is medium."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that share something: `by` is the Figure's group_by, `name` its group."""

    by: str
    name: str
    rows: Mask


def type_groups(columns: Columns) -> list[Group]:
    """Each question type, `answerable` for all but refusal, and `all`."""
    by_type = {name: columns.is_in("type", name) for name in TYPES}
    together = {"answerable": ~by_type["refusal"], "all": np.ones(columns.rows, dtype=np.bool_)}
    return [Group("type", name, rows) for name, rows in (by_type | together).items()]


def subgroups(columns: Columns, edges: Edges) -> list[Group]:
    """The answerable questions by category, section, the label's length and whether the answer holds a number."""
    answerable = ~columns.is_in("type", "refusal")
    return [
        *_by_name(columns, "category", answerable),
        *_by_name(columns, "section", answerable),
        *_by_length(columns, edges, answerable),
        *_numeric(columns, answerable),
    ]


def length_edges(*tables: pa.Table) -> Edges:
    """The tertiles of label_characters over the distinct labels of Score or RetrievalScore tables.

    Give the tables of a whole evaluation, so that short means the same in all its cells.
    """
    lengths: dict[str, int] = {}
    for table in tables:
        distinct = table.select(["set_id", "label_characters"]).group_by(["set_id", "label_characters"]).aggregate([])
        lengths |= dict(zip(*(distinct[name].to_pylist() for name in ("set_id", "label_characters")), strict=True))
    low, high = np.quantile(list(lengths.values()), [1 / 3, 2 / 3]) if lengths else (0.0, 0.0)
    return float(low), float(high)


def _by_name(columns: Columns, by: str, among: Mask) -> list[Group]:
    values = columns.strings(by)
    names, rows = np.unique(values[among], return_counts=True)
    alone = [
        str(name) for name, count in zip(names, rows, strict=True) if name not in ("", OTHER) and count >= SMALLEST
    ]
    groups = [Group(by, name, among & (values == name)) for name in alone]
    return _filled([*groups, Group(by, OTHER, among & ~np.isin(values, alone))])


def _by_length(columns: Columns, edges: Edges, among: Mask) -> list[Group]:
    tertile = np.searchsorted(edges, columns.number("label_characters"))
    return _filled([Group("label_length", name, among & (tertile == at)) for at, name in enumerate(LENGTHS)])


def _numeric(columns: Columns, among: Mask) -> list[Group]:
    numeric = columns.number("numeric") > 0
    groups = [Group("numeric", "numeric", among & numeric), Group("numeric", "not numeric", among & ~numeric)]
    return _filled(groups)


def _filled(groups: list[Group]) -> list[Group]:
    return [group for group in groups if group.rows.any()]
