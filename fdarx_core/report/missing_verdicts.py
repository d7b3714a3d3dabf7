"""The answers on which a judge gave no usable verdict, by cell, for the terminal and the page of an evaluation.

The built-in grader is left out, because it abstains by design; so are cells that the same command completes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.scoring import BY_RULE
from fdarx_core.evaluation.tables import BASELINE
from fdarx_core.records import Figure, Grade, SettingProgress
from fdarx_core.report.page_engine import readable
from fdarx_core.storage import RunDirectory, read_records, read_table

NOTICEABLE = 0.05
"""The share of the answers for the judge, above which a cell is named."""
_DETAIL_CHARACTERS = 160

REGRADE_COMMAND = "fdarx evaluate --predictions RUN --regrade JUDGE --models FILE --out NEW_RUN"


@dataclass(slots=True)
class MissingVerdicts:
    """What the judge made of the answers of a cell that it was asked about.

    `reasons` count the answers without a verdict; `examples` have the first grade with each reason.
    """

    cell: CellKey
    asked: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, Grade] = field(default_factory=dict)

    def add(self, grade: Grade) -> None:
        """Count a grade of the judge."""
        self.asked += 1
        if grade.outcome == "unscored":
            self.reasons[grade.reason] += 1
            self.examples.setdefault(grade.reason, grade)

    @property
    def noticeable(self) -> bool:
        """Whether more than the share `NOTICEABLE` of the answers have no verdict."""
        return self.reasons.total() > NOTICEABLE * self.asked

    @property
    def example(self) -> Grade:
        """The first grade with the most frequent reason."""
        return self.examples[self.reasons.most_common(1)[0][0]]

    @property
    def sentence(self) -> str:
        """How many answers have no verdict, and the most frequent reason, without the name of the cell."""
        return (
            f"the judge {self.example.judge} gave no verdict on {self.reasons.total():,} of {self.asked:,} answers "
            f"({self._why()}); they are unscored and count in no accuracy"
        )

    def _why(self) -> str:
        (reason, number), detail = self.reasons.most_common(1)[0], " ".join(self.example.detail.split())
        cut = detail if len(detail) <= _DETAIL_CHARACTERS else f"{detail[:_DETAIL_CHARACTERS]}…"
        named = f"{readable(reason)}: {cut}" if cut else readable(reason)
        return named if number == self.reasons.total() else f"{number:,} of them: {named}"


def missing_verdicts(run: RunDirectory) -> list[MissingVerdicts]:
    """Return the cells of an evaluation in which a noticeable share has no verdict because of the judge.

    One part of the run is in memory at a time, of models with unscored answers alone.
    """
    cells = [one for one in read_records(run.file("cells.parquet"), SettingProgress) if one.unscored]
    keys = [CellKey(one.model, one.setting, one.retriever) for one in cells if one.status != "incomplete"]
    found = {key: MissingVerdicts(key) for key in keys}
    for model in dict.fromkeys(key.model for key in keys):
        for part in run.parts(f"grades/{model}"):
            answers = read_table(run.file(f"predictions/{model}/{part.name}"), ["id", "setting", "retriever"])
            key_of = {row["id"]: CellKey(model, row["setting"], row["retriever"]) for row in answers.to_pylist()}
            for grade in read_records(part, Grade):
                key = key_of[grade.prediction_id]
                if key in found and grade.judge not in (BY_RULE, BASELINE):
                    found[key].add(grade)
    return [one for one in found.values() if one.noticeable]


def remedy(missing: Sequence[MissingVerdicts], run: str) -> str:
    """Return what to do about missing verdicts of a run: the command that shows one of them, and that which grades
    again."""
    return (
        f"Look at one of them: fdarx show {run} {missing[0].example.question_id}. Then change the judge, and grade the "
        f"answers again: {REGRADE_COMMAND}."
    )


def ungraded_notes(names: Sequence[str], figures: Sequence[Sequence[Figure]]) -> list[str]:
    """Return a note on each run in which no answer has a grade from which an accuracy follows.

    Args:
        names: the names of the runs.
        figures: the figures of each run.
    """
    return [
        f"Accuracies of {name} are not compared, because no answer of it to a factual or multi-hop question has a "
        f"grade. Its report says why. Grade its answers again: {REGRADE_COMMAND}."
        for name, listed in zip(names, figures, strict=True)
        if (accuracies := [one for one in listed if (one.metric, one.keys["group_by"]) == ("accuracy", "type")])
        and not any(one.rows for one in accuracies)
    ]
