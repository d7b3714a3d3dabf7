"""Which items people and the judge see alike, and which not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from fdarx_core.review.agreement.scales import Scale
from fdarx_core.review.agreement.votes import Voted, consensus

TIE = "tie"
UNDECIDED = "no decision"


@dataclass(frozen=True, slots=True)
class Confusion:
    """Items by what people say (down; `TIE` where no value leads) and what the judge says (across; `UNDECIDED` where it
    reached nothing). `cells` holds the items' ids. Values that neither gave are left out.
    """

    task: str
    judge: str
    rows: list[str]
    columns: list[str]
    cells: list[list[list[str]]]


def confusions(voted: Sequence[Voted], scale: Scale) -> list[Confusion]:
    """A table for each judge of a task, over the items with a vote, by all values of the task."""
    by_judge: dict[str, list[Voted]] = defaultdict(list)
    for one in voted:
        if one.annotations:
            by_judge[one.item.judge].append(one)
    return [_confusion(judge, by_judge[judge], scale) for judge in sorted(by_judge)]


def _confusion(judge: str, voted: Sequence[Voted], scale: Scale) -> Confusion:
    cells: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in voted:
        cells[consensus(one.values) or TIE, one.item.decision or UNDECIDED].append(one.item.id)
    used = [value for value in scale.values if any(value in place for place in cells)]
    rows = [*used, *([TIE] if any(down == TIE for down, _ in cells) else [])]
    columns = [*used, *([UNDECIDED] if any(across == UNDECIDED for _, across in cells) else [])]
    found = [[cells.get((down, across), []) for across in columns] for down in rows]
    return Confusion(scale.task, judge, rows, columns, found)
