"""The labels of a build for safety: what they forbid, made in parallel, and flags by actors that hold the labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray

from fdarx_core.factuality.safety import ContraindicationTable, Safety, contraindications_of
from fdarx_core.factuality.safety.table import PARQUET
from fdarx_core.pipeline.factuality.guarded import by_rules
from fdarx_core.pipeline.factuality.parts import FactualityParts
from fdarx_core.pipeline.factuality.what import Checking
from fdarx_core.pipeline.sweep.windows import in_windows
from fdarx_core.records import CheckedAnswer, Contraindication, Label, Passage, SafetyFlag
from fdarx_core.storage import RunDirectory, read_records, read_table
from fdarx_core.storage.benchmark import open_build

Flagged = list[SafetyFlag] | str
"""The flags of an answer, or why they could not be looked for."""


class SafetyHolder:
    """A Ray actor that holds the labels."""

    def __init__(self, checking: Checking, synonyms: Mapping[str, Sequence[str]]) -> None:
        build = open_build(checking.safety)
        labels = (pair for number in range(len(build.parts("labels"))) for pair in _labels(build, number))
        self._safety = Safety(labels, synonyms)

    def flags(self, answers: Sequence[CheckedAnswer]) -> list[Flagged]:
        return [by_rules(self._safety.flags_of, answer) for answer in answers]


def make_table(parts: FactualityParts, build: RunDirectory, tell: Callable[[int, int], None]) -> int:
    """Make the run's table of contraindications, unless it stands; returns the number of its rows.

    `tell` is called with the parts of the labels read so far, and their number.
    """
    if not parts.marked("contraindications", [0]):
        ContraindicationTable(_forbidden(build, tell)).save(parts.run.root)
        parts.mark("contraindications", 0)
    return int(read_table(parts.run.file(PARQUET), ["id"]).num_rows)


def _forbidden(build: RunDirectory, tell: Callable[[int, int], None]) -> list[Contraindication]:
    """In the order of the labels, whichever part is done first."""
    numbers = range(len(build.parts("labels")))
    task: Any = ray.remote(_of_part)
    found: dict[int, list[Contraindication]] = {}
    tell(0, len(numbers))
    for number, rows in in_windows(lambda number: task.remote(build, number), numbers):
        found[number] = rows
        tell(len(found), len(numbers))
    return [row for number in numbers for row in found[number]]


def _of_part(build: RunDirectory, number: int) -> tuple[int, list[Contraindication]]:
    return number, [row for label, passages in _labels(build, number) for row in contraindications_of(label, passages)]


def _labels(build: RunDirectory, number: int) -> Iterator[tuple[Label, list[Passage]]]:
    """The labels of a part with all their passages."""
    passages: defaultdict[str, list[Passage]] = defaultdict(list)
    for passage in read_records(build.parts("passages")[number], Passage):
        passages[passage.set_id].append(passage)
    for label in read_records(build.parts("labels")[number], Label):
        yield label, passages[label.set_id]
