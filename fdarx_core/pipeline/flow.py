"""The steps as one streaming Ray Data flow: blocks of labels move from operator to operator, none waits for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import ray.data

from fdarx_core.labels import BadDocument, Identity, Source, identify, read_source
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.blocks import each_row, packed, unpacked
from fdarx_core.pipeline.control import Control, beside_driver, start_control
from fdarx_core.pipeline.conversation import Conversation
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.pipeline.outside import Outside
from fdarx_core.pipeline.plan import baseline
from fdarx_core.pipeline.planning import Planned, plan_part
from fdarx_core.pipeline.sink import Sink
from fdarx_core.pipeline.stepping import AskBaseline, Asking, Step, run_steps
from fdarx_core.records import Reject, StageCount

LABELS_A_PART = 8
"""Labels in a block: the grain of parallel work, of resuming, and of memory (a few MB)."""

_SOURCES_A_BLOCK = 64
_BLOCKS_IN_CONVERSATION = 16
"""Labels talked about at once, over `LABELS_A_PART`: enough to keep some hundred requests in flight to the last one."""

Item = TypeVar("Item")
Operator: TypeAlias = Callable[[ray.data.Dataset], ray.data.Dataset]


@dataclass(slots=True)
class Identified:
    """What one block of sources held: how many sources that were, the documents in them, and what can't be read."""

    sources: int
    identities: list[Identity]
    rejects: list[Reject]


@dataclass(slots=True)
class Flow:
    """The steps of a build, where its answers are kept, and whom it asks; `control` reaches the conversation."""

    steps: Sequence[Step[Dossier]]
    store: ResponseStore
    outside: Outside
    control: Control | None = None

    def build_parts(self, parts: Sequence[tuple[int, Sequence[Identity]]], sink: Sink) -> Iterator[list[StageCount]]:
        """Run the steps over parts of (number, labels) and write each; yields a part's accounts once it stands.

        Steps between the first and the last that ask a model are one operator, the conversation, of which there is
        one a run. The others are tasks, cut where rules are asked. Raises what a step raised, with Ray's own
        error as a second class and the first as its `cause`.
        """
        blocks = [packed([Dossier(identity) for identity in labels], number) for number, labels in parts]
        for row in _run(blocks, [*self._operators(), _task(lambda part, dossiers: _written(sink, part, dossiers))]):
            yield [StageCount(**count) for count in unpacked(row)]

    def plan_parts(self, parts: Sequence[tuple[int, Sequence[Identity]]]) -> Iterator[list[Planned]]:
        """What each part would ask; nothing is asked and nothing written."""
        blocks = [packed([Dossier(identity) for identity in labels], number) for number, labels in parts]
        steps, models = self.steps, self.outside.models
        for row in _run(blocks, [_task(lambda part, dossiers: plan_part(steps, baseline(), models, dossiers))]):
            yield unpacked(row)

    def _operators(self) -> list[Operator]:
        asking = [i for i, step in enumerate(self.steps) if isinstance(step, Asking) and self._asks_model(step)]
        if not asking:
            return self._tasks(self.steps)
        first, last = asking[0], asking[-1] + 1
        before, after = self._tasks(self.steps[:first]), self._tasks(self.steps[last:])
        return [*before, self._conversation(self.steps[first:last]), *after]

    def _asks_model(self, step: Asking[Dossier]) -> bool:
        return bool(step.endpoints & self.outside.models.keys())

    def _tasks(self, steps: Sequence[Step[Dossier]]) -> list[Operator]:
        answer = AskBaseline(baseline(), self.store)
        return [_task(lambda part, dossiers, own=group: run_steps(own, dossiers, answer)) for group in _groups(steps)]

    def _conversation(self, steps: Sequence[Step[Dossier]]) -> Operator:
        control = self.control = start_control()
        blocks = _BLOCKS_IN_CONVERSATION
        strategy = ray.data.ActorPoolStrategy(
            size=1, max_tasks_in_flight_per_actor=blocks, max_concurrent_calls_per_actor=blocks
        )
        return lambda dataset: dataset.map_batches(
            Conversation,
            fn_constructor_args=(steps, self.outside, self.store.root, control.name),
            compute=strategy,
            batch_format="pyarrow",
            batch_size=None,
            num_cpus=0,
            label_selector=beside_driver(),
        )


def identify_all(sources: Sequence[Source]) -> Iterator[Identified]:
    """Identities of all documents under the sources, block by block as they come."""
    blocks = [packed(part) for part in _cut(sources, _SOURCES_A_BLOCK)]
    for row in _run(blocks, [_task(lambda part, own: _identify(own))]):
        yield unpacked(row)


def numbered_parts(labels: Sequence[Identity]) -> list[tuple[int, Sequence[Identity]]]:
    """Labels by set id cut into parts; the cut depends on nothing but the labels, so a resumed run cuts alike."""
    return list(enumerate(_cut(labels, LABELS_A_PART)))


def _cut(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _groups(steps: Sequence[Step[Dossier]]) -> list[list[Step[Dossier]]]:
    groups: list[list[Step[Dossier]]] = []
    for step in steps:
        if isinstance(step, Asking) or not groups:
            groups.append([])
        groups[-1].append(step)
    return groups


def _run(blocks: Sequence[pa.Table], operators: Sequence[Operator]) -> Iterator[dict[str, Any]]:
    if not blocks:
        return
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.raise_original_map_exception = True  # else a place that can't be written looks like a fault of the program
    dataset: ray.data.Dataset = ray.data.from_arrow(list(blocks))
    for operator in operators:
        dataset = operator(dataset)
    yield from dataset.iter_rows()


def _task(function: Callable[..., Any]) -> Operator:
    """An operator of plain tasks; neighbours of this kind are fused by Ray."""

    def apply(block: pa.Table) -> pa.Table:
        return each_row(block, function)

    return lambda data: data.map_batches(apply, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)


def _written(sink: Sink, part: int, dossiers: Sequence[Dossier]) -> list[dict[str, Any]]:
    return [asdict(count) for count in sink(part, dossiers)]


def _identify(sources: Sequence[Source]) -> Identified:
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
