"""The steps as one streaming Ray Data flow: blocks of labels move from operator to operator, none waits for all."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import pyarrow as pa
import ray
import ray.data

from fdarx_core.labels import BadDocument, Identity, Source, identify, read_source
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.pipeline.plan import Answer, run_steps
from fdarx_core.pipeline.sink import Sink
from fdarx_core.pipeline.steps import Asking, Step
from fdarx_core.records import Reject, StageCount

LABELS_A_PART = 8
"""Labels in a block: the grain of parallel work, of resuming, and of memory (a few MB)."""

_SOURCES_A_BLOCK = 64

Item = TypeVar("Item")


@dataclass(slots=True)
class Identified:
    """What one block of sources held: how many sources that were, the documents in them, and what can't be read."""

    sources: int
    identities: list[Identity]
    rejects: list[Reject]


def identify_all(sources: Sequence[Source]) -> Iterator[Identified]:
    """Identities of all documents under the sources, block by block as they come."""
    blocks = [_packed(part) for part in _cut(sources, _SOURCES_A_BLOCK)]
    for row in _run(blocks, [_identify_block]):
        yield pickle.loads(row["items"])


def build_parts(
    parts: Sequence[tuple[int, Sequence[Identity]]], steps: Sequence[Step], answer: Answer, sink: Sink
) -> Iterator[list[StageCount]]:
    """Run the steps over parts of (number, labels) and write each; yields the accounts of each part once it stands.

    Steps between two that ask make one operator, which begins with the asking.
    """
    blocks = [_packed([Dossier(identity) for identity in labels], number) for number, labels in parts]
    operators = [*(_operator(group, answer) for group in _groups(steps)), _sink_operator(sink)]
    for row in _run(blocks, operators):
        yield [StageCount(**count) for count in pickle.loads(row["items"])]


def _groups(steps: Sequence[Step]) -> list[list[Step]]:
    groups: list[list[Step]] = []
    for step in steps:
        if isinstance(step, Asking) or not groups:
            groups.append([])
        groups[-1].append(step)
    return groups


def numbered_parts(labels: Sequence[Identity]) -> list[tuple[int, Sequence[Identity]]]:
    """Labels by set id cut into parts; the cut depends on nothing but the labels, so a resumed run cuts alike."""
    return list(enumerate(_cut(labels, LABELS_A_PART)))


def _cut(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _packed(items: Any, part: int = 0) -> pa.Table:
    """A block of one row: Ray sees a flat binary column, whose size it knows, and never what is in it."""
    return pa.table({"part": [part], "items": pa.array([pickle.dumps(items, protocol=5)], pa.large_binary())})


def _run(blocks: Sequence[pa.Table], operators: Sequence[Callable[[pa.Table], pa.Table]]) -> Iterator[dict[str, Any]]:
    if not blocks:
        return
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    dataset: ray.data.Dataset = ray.data.from_arrow(list(blocks))
    for operator in operators:
        dataset = dataset.map_batches(operator, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)
    yield from dataset.iter_rows()


def _operator(steps: Sequence[Step], answer: Answer) -> Callable[[pa.Table], pa.Table]:
    def apply(block: pa.Table) -> pa.Table:
        return _each_row(block, lambda part, dossiers: run_steps(steps, dossiers, answer))

    return apply


def _sink_operator(sink: Sink) -> Callable[[pa.Table], pa.Table]:
    def write(block: pa.Table) -> pa.Table:
        return _each_row(block, lambda part, dossiers: [asdict(count) for count in sink(part, dossiers)])

    return write


def _each_row(block: pa.Table, function: Callable[[int, Any], Any]) -> pa.Table:
    """A block holds one row unless Ray joined some; a part stays a row all the way."""
    rows = block.to_pylist()
    return pa.concat_tables([_packed(function(row["part"], pickle.loads(row["items"])), row["part"]) for row in rows])


def _identify_block(block: pa.Table) -> pa.Table:
    return _each_row(block, lambda part, sources: _identify_sources(sources))


def _identify_sources(sources: Sequence[Source]) -> Identified:
    found: list[Identity] = []
    rejects: list[Reject] = []
    for source in sources:
        for document in read_source(source):
            if isinstance(document, Reject):
                rejects.append(document)
                continue
            try:
                found.append(identify(document[1], document[0]))
            except BadDocument as error:
                name = document[0].name
                rejects.append(Reject(name, "identify", error.reason, error.detail, source=name))
    return Identified(len(sources), found, rejects)
