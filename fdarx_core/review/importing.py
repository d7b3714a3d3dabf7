"""What annotators hand in, checked as a whole before any of it is written; nothing that stands is overwritten."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fdarx_core.records import content_id
from fdarx_core.records.review import Annotation, ReviewItem
from fdarx_core.review.handed_in import HandedIn, read_handed_in
from fdarx_core.review.items import Review, merged
from fdarx_core.storage import Location, write_records

_LETTERS = "abc"
_TOLD = 3
"""Ids that a notice names."""


class WrongAnnotations(ValueError):
    """A file that can't be taken as it is: what is wrong, in which row, and what to do."""


@dataclass(slots=True)
class Imported:
    """What one import brought. `new` annotations were written to `files`, `known` stood there already.

    `notices` say what is left out or still missing, a line each.
    """

    new: int = 0
    known: int = 0
    files: list[Location] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def import_annotations(review: Review, files: Sequence[str]) -> Imported:
    """Takes in files of the annotators' pages (.json), and filled-in items as .csv or .jsonl.

    An item without a value is not counted as answered. Raises WrongAnnotations for another review's file, an annotator,
    item or value that the review does not have, and an annotator who gives an item two values, in these files or in an
    earlier import; StorageError where a file can't be read. Then nothing is written.
    """
    items = {item.id: item for item in review.items()}
    done = Imported()
    fresh: dict[str, list[Annotation]] = defaultdict(list)
    stands = {(row.annotator, row.item_id): row for row in review.annotations()}
    for file in files:
        for place, row in _checked(review, items, file, done):
            key = (row.annotator, row.item_id)
            before = stands.get(key)
            if before is None or _adds(before, row, place):
                fresh[row.annotator].append(row)
                stands[key] = row if before is None else merged([before, row])[0]
            else:
                done.known += 1
    for annotator, rows in sorted(fresh.items()):
        _write(review, annotator, rows, done)
    done.notices += _missing(len(items), stands.values())
    return done


def _adds(before: Annotation, row: Annotation, place: str) -> bool:
    """Whether a row says more than what stands: another remark. Another value is refused."""
    if before.value != row.value:
        raise WrongAnnotations(
            f"{place}: {row.annotator} says {row.value!r} of item {row.item_id}, but {before.value!r} was handed in "
            "before; nothing is overwritten: settle with the annotator which holds, and hand in that file alone"
        )
    return row.remark not in before.remark


def _write(review: Review, annotator: str, rows: list[Annotation], done: Imported) -> None:
    rows = merged(rows)
    said = [f"{row.item_id}\x1f{row.value}\x1f{row.remark}" for row in rows]
    place = review.root / f"annotations/{annotator}-{content_id(*said)}.parquet"
    write_records(place, rows, Annotation)
    done.files.append(place)
    done.new += len(rows)


def _checked(
    review: Review, items: Mapping[str, ReviewItem], file: str, done: Imported
) -> Iterator[tuple[str, Annotation]]:
    """The file's annotations with a value, and where each stands."""
    remarked: list[str] = []
    rows = list(read_handed_in(file))
    if not rows:
        done.notices.append(f"{file}: nothing is filled in")
    for one in rows:
        item = _item(review, items, one)
        value = _value(item, one)
        if value:
            yield one.place, replace(one.said, task=item.task, value=value)
        elif one.said.remark:
            remarked.append(item.id)
    if remarked:
        listed = ", ".join(remarked[:_TOLD]) + (" …" if len(remarked) > _TOLD else "")
        done.notices.append(
            f"{file}: {len(remarked)} remarks stand on items without a value ({listed}) and are left out; "
            "a remark is taken with a value"
        )


def _item(review: Review, items: Mapping[str, ReviewItem], one: HandedIn) -> ReviewItem:
    if one.review != review.digest:
        was = f"of review {one.review!r}" if one.review else "without a review's id"
        raise WrongAnnotations(f"{one.place}: the row is {was}, this is {review.digest}; import it where it belongs")
    known = review.info["annotators"]
    if one.said.annotator not in known:
        raise WrongAnnotations(
            f"{one.place}: there is no annotator {one.said.annotator!r}; known are {', '.join(known)}. "
            "Who joins is named to `fdarx review sample` with --annotators, all else as before"
        )
    if one.said.item_id not in items:
        raise WrongAnnotations(
            f"{one.place}: the review has no item {one.said.item_id!r}; ids have 16 hexadecimal digits and stand in "
            f"{review.root}/items.csv"
        )
    return items[one.said.item_id]


def _value(item: ReviewItem, one: HandedIn) -> str:
    """The choice that is meant, "" for none; case does not count, and a, b, c stand for the first three of up to three.

    Raises WrongAnnotations for what is no choice.
    """
    given = one.said.value.strip().casefold()
    letters = dict(zip(_LETTERS, item.choices, strict=False)) if len(item.choices) <= len(_LETTERS) else {}
    named = {"": "", **letters, **{choice.casefold(): choice for choice in item.choices}}
    if given not in named:
        raise WrongAnnotations(
            f"{one.place}: {one.said.value!r} is no value of item {item.id} ({item.task}); give one of "
            f"{', '.join(item.choices)}, or leave it empty"
        )
    return named[given]


def _missing(all_items: int, rows: Iterable[Annotation]) -> list[str]:
    counted = Counter(row.annotator for row in rows)
    return [
        f"{name}: {rows} of {all_items} items are answered, {all_items - rows} are left"
        for name, rows in sorted(counted.items())
        if rows < all_items
    ]
