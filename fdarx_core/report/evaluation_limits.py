"""What limits the figures of an evaluation, as sentences for the terminal and the page.

These are: a judge that fails checks that cost no request, models with many unusable replies, and evidence that was
shortened to fit the context.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.scoring import BY_RULE
from fdarx_core.evaluation.tables import BASELINE
from fdarx_core.records import Grade, SettingProgress
from fdarx_core.report.build_losses import TOO_MANY, meaning_of
from fdarx_core.report.names import setting_name
from fdarx_core.storage import RunDirectory, read_records, read_table
from fdarx_core.verify.exact import words_of

COPIED_EXAMPLE = "copied_example"
"""The reason of `Task.parse` for a reply that repeats an example of the prompt."""


@dataclass(slots=True)
class JudgeChecks:
    """What can be checked of a judge without a request.

    Attributes:
        replies: its replies on the answers of all cells.
        same: answers that are the gold answer word for word, and on which it gave a verdict.
        denied: those of them that it did not call correct.
        copied: replies that repeat an example of the prompt.
    """

    replies: int = 0
    same: int = 0
    denied: int = 0
    copied: int = 0

    def add(self, grade: Grade, answer: str, gold: str) -> None:
        """Count a reply on an answer."""
        self.replies += 1
        self.copied += grade.reason == COPIED_EXAMPLE
        if grade.outcome != "unscored" and words_of(answer) == words_of(gold):
            self.same += 1
            self.denied += grade.outcome != "correct"

    def sentences(self, judge: str) -> Iterator[str]:
        """Yield what the judge fails."""
        if self.denied:
            yield (
                f"The judge {judge} did not call {self.denied:,} of {self.same:,} answers correct that are the gold "
                "answer word for word. Take another judge, and grade the answers again."
            )
        if self.copied:
            yield (
                f"{self.copied:,} of {self.replies:,} replies of the judge {judge} repeat an example of its prompt and "
                "are no verdicts. Take a stronger judge."
            )


def limits(run: RunDirectory, cells: Sequence[SettingProgress]) -> list[str]:
    """Return what limits the figures of an evaluation, in sentences. One part of the run is in memory at a time."""
    return [*_judge_lines(run, cells), *_unusable_lines(run, cells), *_shortened_lines(cells)]


def is_comparable(cell: SettingProgress) -> bool:
    """Return whether a figure of a cell may stand in a headline.

    It may not if more than a tenth of its replies are unusable, or more than a tenth of its answers lack a verdict of a
    judge that is a model. The built-in grader abstains by design.
    """
    lacking = cell.unscored if cell.judge not in ("", BASELINE) else 0
    return max(cell.unusable, lacking) <= TOO_MANY * max(cell.due, 1)


def _judge_lines(run: RunDirectory, cells: Sequence[SettingProgress]) -> Iterator[str]:
    models = list(dict.fromkeys(cell.model for cell in cells if cell.answered))
    found: defaultdict[str, JudgeChecks] = defaultdict(JudgeChecks)
    for model in models:
        for part in run.parts(f"grades/{model}"):
            _check_part(run, model, part.name, list(read_records(part, Grade)), found)
    for judge, checks in found.items():
        yield from checks.sentences(judge)
    own = {cell.model: cell.judge for cell in cells if cell.judge != BASELINE and _grades_itself(cell)}
    for model, judge in own.items():
        yield f"The judge {judge} grades answers of its own model ({model}), which favours them. Take another judge."


def _check_part(
    run: RunDirectory, model: str, part: str, grades: Sequence[Grade], found: defaultdict[str, JudgeChecks]
) -> None:
    judged = [grade for grade in grades if grade.judge not in (BY_RULE, BASELINE)]
    if not judged:
        return
    answers = read_table(run.file(f"predictions/{model}/{part}"), ["id", "answer"]).to_pydict()
    questions = read_table(run.file(f"questions/{part}"), ["id", "answer"]).to_pydict()
    answer_of = dict(zip(answers["id"], answers["answer"], strict=True))
    gold_of = dict(zip(questions["id"], questions["answer"], strict=True))
    for grade in judged:
        found[grade.judge].add(grade, answer_of[grade.prediction_id], gold_of[grade.question_id])


def _grades_itself(cell: SettingProgress) -> bool:
    """Return whether judge and answerer are one model: they have the same name, or the same API and id."""
    same_engine = cell.engine.partition(",")[0] == cell.judge_engine.partition(",")[0] != ""
    return cell.model == cell.judge or same_engine


def _unusable_lines(run: RunDirectory, cells: Sequence[SettingProgress]) -> Iterator[str]:
    """Yield a line for each cell with too many unusable replies. A cell that ended early says so elsewhere."""
    for cell in cells:
        if cell.status == "incomplete" or cell.unusable <= TOO_MANY * max(cell.due, 1):
            continue
        reason = _most_frequent_reason(run, cell)
        yield (
            f"{_name(cell)}: {cell.unusable:,} of {cell.due:,} replies were unusable, most as {reason}. "
            f"{meaning_of(reason)} The result in words leaves it out."
        )


def _most_frequent_reason(run: RunDirectory, cell: SettingProgress) -> str:
    reasons = Counter[str]()
    for part in run.parts(f"predictions/{cell.model}"):
        for row in read_table(part, ["setting", "retriever", "outcome", "reason"]).to_pylist():
            if (row["setting"], row["retriever"]) == (cell.setting, cell.retriever):
                reasons.update([row["reason"].partition(":")[0]] * (row["outcome"] in ("unparsed", "failed")))
    return reasons.most_common(1)[0][0] if reasons else cell.reason


def _shortened_lines(cells: Sequence[SettingProgress]) -> Iterator[str]:
    for cell in cells:
        if cell.cut:
            what = "labels cut" if cell.setting == "full_label" else "passages left out"
            yield (
                f"{_name(cell)}: {what} for {cell.cut:,} of {cell.due:,} questions to fit the context; gold shown for "
                f"{cell.gold_shown:,} of {cell.gold_due:,}."
            )


def _name(cell: SettingProgress) -> str:
    return str(CellKey(cell.model, setting_name(cell.setting, cell.retriever), ""))
