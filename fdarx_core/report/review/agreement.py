"""The agreement of judges and people as one HTML page that opens from disk and loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.evaluation.grid import Grid
from fdarx_core.report.environment import environment
from fdarx_core.report.evaluation.grids import plain_table
from fdarx_core.report.exhibit import Cell
from fdarx_core.review.agreement import (
    TASK_NAMES,
    TIE,
    UNDECIDED,
    Agreement,
    Confusion,
    Voted,
    table_3,
    table_4,
    table_5,
)


@dataclass(frozen=True, slots=True)
class Group:
    """The items of one cell of a confusion table; `anchor` is unique in the page."""

    anchor: str
    people: str
    judge: str
    items: list[Voted]

    @property
    def agree(self) -> bool:
        return self.people == self.judge


@dataclass(frozen=True, slots=True)
class ShownConfusion:
    """A confusion table whose cells lead to their items; a cell without items is None."""

    name: str
    title: str
    columns: list[str]
    rows: list[tuple[str, list[Group | None]]]

    @property
    def groups(self) -> list[Group]:
        """Those on which judge and people differ first, the largest first."""
        found = [group for _, cells in self.rows for group in cells if group]
        return sorted(found, key=lambda one: (one.agree, -len(one.items)))


def agreement_page(info: Mapping[str, Any], found: Agreement, calibrated: Sequence[Grid] = ()) -> str:
    """The page. `info` is the review's review.json; tables of `calibrated` accuracy follow the paper's."""
    tables = [table_3(found), table_4(found), table_5(found), *calibrated]
    return (
        environment()
        .get_template("review_report.html.j2")
        .render(
            info={name: value for name, value in info.items() if name not in ("strata", "versions")},
            versions=info.get("versions", {}),
            strata=[[one["name"], one["size"], one["drawn"]] for one in info.get("strata", ())],
            found=found,
            people=_people(found),
            header=["Task", "Items", "With a vote", "Ties", "No decision", *_people(found)],
            progress=list(_progress(found)),
            tables=[plain_table(f"table-{at}", grid) for at, grid in enumerate(tables, 3) if grid.rows],
            confusions=list(_shown(found)),
            unvoted=sum(not one.annotations for one in found.voted),
            tie=TIE,
            undecided=UNDECIDED,
        )
    )


def _people(found: Agreement) -> list[str]:
    return sorted({name for one in found.tallies for name in one.votes})


def _progress(found: Agreement) -> Iterator[list[Cell]]:
    for one in found.tallies:
        counts = [one.items, one.judged, len(one.ties), one.undecided]
        yield [TASK_NAMES[one.task], *counts, *(one.votes.get(name, 0) for name in _people(found))]


def _shown(found: Agreement) -> Iterator[ShownConfusion]:
    items = {one.item.id: one for one in found.voted}
    several = {one.task for one in found.confusions if sum(one.task == other.task for other in found.confusions) > 1}
    for at, one in enumerate(found.confusions):
        title = TASK_NAMES[one.task] + (f", {one.judge or 'no judge'}" if one.task in several else "")
        yield ShownConfusion(f"confusion-{at}", title, one.columns, list(_rows(one, at, items)))


def _rows(table: Confusion, at: int, items: Mapping[str, Voted]) -> Iterator[tuple[str, list[Group | None]]]:
    for down, (people, cells) in enumerate(zip(table.rows, table.cells, strict=True)):
        yield (
            people,
            [
                Group(f"cell-{at}-{down}-{across}", people, judge, [items[one] for one in ids]) if ids else None
                for across, (judge, ids) in enumerate(zip(table.columns, cells, strict=True))
            ],
        )
