"""What people said of each item, and what they say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fdarx_core.records.review import Annotation, ReviewItem


@dataclass(frozen=True, slots=True)
class Voted:
    """An item with one annotation an annotator, in the order of their names."""

    item: ReviewItem
    annotations: list[Annotation] = field(default_factory=list)

    @property
    def values(self) -> list[str]:
        return [one.value for one in self.annotations]


def collect(items: Iterable[ReviewItem], annotations: Iterable[Annotation], *, blind: bool = False) -> list[Voted]:
    """Every item with its votes, in the order of the items. `blind` leaves out votes given with the decision in view.

    Raises ValueError for a vote on an item that is not among them, for a value that is none of its choices, and where
    an annotator gave one item two values.
    """
    found = {item.id: Voted(item) for item in items}
    given: dict[tuple[str, str], Annotation] = {}
    for one in sorted(annotations, key=lambda vote: (vote.annotator, vote.item_id)):
        _check(one, found.get(one.item_id), given.get((one.item_id, one.annotator)))
        if (one.item_id, one.annotator) not in given and not (blind and one.saw_decision):
            given[one.item_id, one.annotator] = one
            found[one.item_id].annotations.append(one)
    return list(found.values())


def _check(vote: Annotation, on: Voted | None, before: Annotation | None) -> None:
    who = f"the vote of {vote.annotator} on item {vote.item_id}"
    if on is None:
        raise ValueError(f"{who} is on no item of this review; was it given in another?")
    if vote.value not in on.item.choices:
        raise ValueError(f"{who} is {vote.value!r}; it may be {', '.join(on.item.choices)}")
    if before is not None and before.value != vote.value:
        raise ValueError(f"{who} is {before.value!r} and {vote.value!r}; keep one of the two annotation files")


def consensus(values: Sequence[str]) -> str:
    """The value that more people gave than any other, "" where there is no such value. Source: FDARxBench Table 4."""
    first = Counter(values).most_common(2)
    tie = len(first) == 2 and first[0][1] == first[1][1]
    return "" if tie or not first else first[0][0]


def unanimous(values: Sequence[str]) -> str:
    """The value that two people or more gave, and nobody another; "" elsewhere. Source: FDARxBench Table 4."""
    return values[0] if len(values) > 1 and len(set(values)) == 1 else ""
