"""What is evaluated, copied into the run part by part, so that the run stands alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import ray

from fdarx_core.evaluation.equivalence import equivalences
from fdarx_core.pipeline.sweep.parts import LABELS_A_PART, Given, Parts
from fdarx_core.pipeline.sweep.what import Sweep
from fdarx_core.pipeline.sweep.windows import in_windows
from fdarx_core.records import content_id
from fdarx_core.storage import RunConflict, RunDirectory
from fdarx_core.storage.benchmark import Examined


@dataclass(slots=True)
class Taken:
    """What was taken in: how many parts, labels, labels with all their text, and questions by type.

    `due` counts the questions of each setting, `ids` are those of all questions.
    """

    parts: int = 0
    labels: int = 0
    whole: int = 0
    questions: Counter[str] = field(default_factory=Counter)
    due: Counter[str] = field(default_factory=Counter)
    ids: set[str] = field(default_factory=set)

    def note(self, group: Sequence[Examined], sweep: Sweep) -> None:
        """Count one part."""
        self.parts += 1
        for label in group:
            self.labels += 1
            self.whole += label.subject.whole
            self.questions.update(question.type for question in label.questions)
            self.ids.update(question.id for question in label.questions)
            for setting in sweep.settings:
                self.due[setting] += sum(sweep.is_due(setting, question, label.subject) for question in label.questions)


def check_input(run: RunDirectory, benchmark: str, given: Given) -> None:
    """Parts of a run must all come from the same benchmark, of that digest, and the same answers made elsewhere.

    The first start notes which. Raises RunConflict where a later one finds others.
    """
    answers = (f"{question_id}\x1e{cell}\x1e{one.text}\x1e{one.cited}" for (question_id, cell), one in given.items())
    digest = content_id(benchmark, *sorted(answers))
    note = run.file("input.json")
    if run.resumed and note.exists():
        if json.loads(note.read_text())["digest"] != digest:
            raise RunConflict(
                f"{run.root} was begun with another benchmark, or other predictions, than those found now; choose "
                "another --out, or bring the first ones back"
            )
    else:
        note.write_text(json.dumps({"digest": digest}) + "\n")


def take_in(parts: Parts, labels: Iterable[Examined], sweep: Sweep, tell: Callable[[int], None]) -> Taken:
    """Write the parts that are not there yet, each with the passages that are worth as much as its gold ones.

    `tell` is called with the number of labels so far.
    """
    taken = Taken()

    def waiting() -> Iterator[tuple[int, list[Examined]]]:
        for number, group in enumerate(_grouped(labels)):
            taken.note(group, sweep)
            tell(taken.labels)
            if not parts.marked("intake", [number]):
                yield number, group

    write = ray.remote(_write)
    for _ in in_windows(lambda item: write.remote(parts, *item), waiting()):
        pass
    return taken


def _grouped(labels: Iterable[Examined]) -> Iterator[list[Examined]]:
    group: list[Examined] = []
    for label in labels:
        group.append(label)
        if len(group) == LABELS_A_PART:
            yield group
            group = []
    if group:
        yield group


def _write(parts: Parts, number: int, group: Sequence[Examined]) -> None:
    equal = [row for label in group for row in equivalences(label.questions, label.passages)]
    parts.write_examined(number, group, equal)
