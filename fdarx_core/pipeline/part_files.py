"""The part files of a run, and the marks that say which parts are whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fdarx_core.pipeline.steps import batches
from fdarx_core.records import Label, Passage, Reject, from_table
from fdarx_core.storage import RunDirectory, read_records, read_tables, write_records

R = TypeVar("R")

_FILES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class PartFiles:
    """Reads and writes the parts of one run.

    `code_version` is a digest of the code that makes the rows; rows of another version are computed again.
    """

    run: RunDirectory
    code_version: str

    def read(self, kind: str, part: int, record: type[R]) -> list[R]:
        return list(read_records(self.run.part(kind, part), record))

    def read_all(self, kind: str, numbers: Iterable[int], record: type[R]) -> list[R]:
        """Return the rows of those parts that have a file of the kind, in the order of the numbers."""
        wanted = list(numbers)
        existing = self.existing(kind, wanted)
        found = self.read_each(kind, [number for number in wanted if number in existing], record)
        return [row for rows in found for row in rows]

    def read_each(self, kind: str, numbers: Iterable[int], record: type[R]) -> Iterator[list[R]]:
        """Yield the rows of each of the parts, which must have a file of the kind; some files are read at a time."""
        for some in batches(numbers, _FILES_AT_ONCE):
            for table in read_tables([self.run.part(kind, number) for number in some]):
                yield list(from_table(table, record))

    def existing(self, kind: str, numbers: Iterable[int]) -> set[int]:
        """Return those of the parts that have a file of the kind."""
        names = {place.name for place in self.run.parts(kind)}
        return {number for number in numbers if self.run.part(kind, number).name in names}

    def write(self, kind: str, part: int, rows: Iterable[Any], record: type) -> None:
        write_records(self.run.part(kind, part), rows, record)

    def write_parts(self, kind: str, rows: Iterable[R | Reject], record: type[R], size: int) -> range:
        """Write the rows to parts of `size` rows, and the rejects to a file of their own. Return the parts' numbers."""
        rejects: list[Reject] = []

        def kept() -> Iterator[R]:
            for row in rows:
                if isinstance(row, Reject):
                    rejects.append(row)
                else:
                    yield row

        number = -1
        for number, group in enumerate(batches(kept(), size)):
            self.write(kind, number, group, record)
        self.write("rejects", 0, rejects, Reject)
        return range(number + 1)

    def mark_complete(self, task: str, part: int, rows: Sequence[Any] = (), record: type = Reject) -> None:
        """Mark a task of a part as complete, after its rows are written. `task` is "" if a part has only one task."""
        self.write(self.mark_kind(task), part, rows, record)

    def complete_parts(self, task: str, numbers: Iterable[int]) -> set[int]:
        """Return those of the parts for which this task is complete."""
        return self.existing(self.mark_kind(task), numbers)

    def mark_kind(self, task: str) -> str:
        """Return the kind of the files that mark this task as complete."""
        return "/".join(filter(None, ("done", self.code_version, task)))


def labels_of_part(build: RunDirectory, number: int) -> dict[str, tuple[Label, list[Passage]]]:
    """Return the labels of a part of a build with their passages, by set id."""
    labels = {label.set_id: (label, list[Passage]()) for label in read_records(build.part("labels", number), Label)}
    for passage in read_records(build.part("passages", number), Passage):
        labels[passage.set_id][1].append(passage)
    return labels
