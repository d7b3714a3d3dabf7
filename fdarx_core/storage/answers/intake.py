"""Answers from files and runs alike, with their gold, as a stream that can be gone through again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fdarx_core.records import CheckedAnswer, Reject
from fdarx_core.storage.answers.census import Census, take_census
from fdarx_core.storage.answers.file import NEEDED, STAGE, answers_of_file
from fdarx_core.storage.answers.gold import Gold
from fdarx_core.storage.answers.rows import nothing_in
from fdarx_core.storage.answers.run import answers_of_run, open_answered
from fdarx_core.storage.location import Location
from fdarx_core.storage.rows_file import check_rows_file
from fdarx_core.storage.rundir import RunDirectory


@dataclass(frozen=True, slots=True)
class Answers:
    """All rows of the sources, each an answer or a reject; every pass reads them anew."""

    sources: Sequence[Location | RunDirectory]
    gold: Gold = field(default_factory=Gold)

    def __iter__(self) -> Iterator[CheckedAnswer | Reject]:
        seen: set[str] = set()
        for source in self.sources:
            for row in self._rows(source):
                if isinstance(row, Reject):
                    yield row
                elif row.id in seen:
                    yield _duplicate(row, source)
                else:
                    seen.add(row.id)
                    yield self.gold.added_to(row)

    def census(self) -> Census:
        """Raises ValueError where no row is an answer, StorageError where a source can't be read."""
        census = take_census(self, self.gold)
        if not census.answers:
            first = [census.first_reject] if census.first_reject else []
            nothing_in(", ".join(map(_address, self.sources)), "answer", NEEDED, first)
        return census

    def _rows(self, source: Location | RunDirectory) -> Iterator[CheckedAnswer | Reject]:
        return answers_of_run(source) if isinstance(source, RunDirectory) else answers_of_file(source, self.gold)


def open_answers(addresses: Sequence[str], gold: Gold) -> Answers:
    """Files of answers (`answers_of_file`), and finished runs of evaluate or evaluate-rag. Raises `StorageError`."""
    return Answers([_opened(address) for address in addresses], gold)


def _opened(address: str) -> Location | RunDirectory:
    location = Location(address)
    if (location / "run.json").exists():
        return open_answered(address)
    check_rows_file(location, "--predictions")
    return location


def _duplicate(row: CheckedAnswer, source: Location | RunDirectory) -> Reject:
    detail = f"an earlier row has an answer of {row.model} to the same question, or the same id"
    return Reject(row.id, STAGE, "duplicate", detail, row.set_id, _address(source))


def _address(source: Location | RunDirectory) -> str:
    return str(source.root if isinstance(source, RunDirectory) else source)
