"""What limits the figures of an evaluation or a factuality run, as sentences for the terminal and the page.

These are: a judge that fails checks that cost no request, models with many unusable replies, evidence that was
shortened to fit the context, and answers on which a judge gave no usable verdict. Of the last, the built-in grader is
left out, because it abstains by design; so are cells that the same command completes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.scoring import BY_RULE
from fdarx_core.evaluation.tables import BASELINE
from fdarx_core.factuality.scores import CONTRADICTED, SUPPORTED, UNSUPPORTED, ScoringMethod, class_of
from fdarx_core.records import Figure, Grade, SettingProgress
from fdarx_core.report.answer_viewer import ScoredAnswer
from fdarx_core.report.page_engine import readable, setting_name
from fdarx_core.report.retention import TOO_MANY, meaning_of
from fdarx_core.storage import RunDirectory, read_records, read_table
from fdarx_core.verify.exact import ENGINE, quoted_span, words_of

COPIED_EXAMPLE = "copied_example"
"""The reason of `Task.parse` for a reply that repeats an example of the prompt."""


def limits(run: RunDirectory, cells: Sequence[SettingProgress]) -> list[str]:
    """Return what limits the figures of an evaluation, in sentences. One part of the run is in memory at a time."""
    shortened = [
        f"{_name(cell)}: {'labels cut' if cell.setting == 'full_label' else 'passages left out'} for {cell.cut:,} of "
        f"{cell.due:,} questions to fit the context; gold shown for {cell.gold_shown:,} of {cell.gold_due:,}."
        for cell in cells
        if cell.cut
    ]
    unusable = []
    for cell in cells:
        # a cell that ended early says so elsewhere
        if cell.status != "incomplete" and cell.unusable > TOO_MANY * max(cell.due, 1):
            reasons = Counter[str]()
            for part in run.parts(f"predictions/{cell.model}"):
                for row in read_table(part, ["setting", "retriever", "outcome", "reason"]).to_pylist():
                    if (row["setting"], row["retriever"]) == (cell.setting, cell.retriever):
                        reasons.update([row["reason"].partition(":")[0]] * (row["outcome"] in ("unparsed", "failed")))
            reason = reasons.most_common(1)[0][0] if reasons else cell.reason
            unusable.append(
                f"{_name(cell)}: {cell.unusable:,} of {cell.due:,} replies were unusable, most as {reason}. "
                f"{meaning_of(reason)} The result in words leaves it out."
            )
    return [*_judge_lines(run, cells), *unusable, *shortened]


def is_comparable(cell: SettingProgress) -> bool:
    """Return whether a figure of a cell may stand in a headline.

    It may not if more than a tenth of its replies are unusable, or more than a tenth of its answers lack a verdict of a
    judge that is a model. The built-in grader abstains by design.
    """
    lacking = cell.unscored if cell.judge not in ("", BASELINE) else 0
    return max(cell.unusable, lacking) <= TOO_MANY * max(cell.due, 1)


def _judge_lines(run: RunDirectory, cells: Sequence[SettingProgress]) -> Iterator[str]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)  # of what was found wrong without a request, by judge
    for model in dict.fromkeys(cell.model for cell in cells if cell.answered):
        for part in run.parts(f"grades/{model}"):
            judged = [one for one in read_records(part, Grade) if one.judge not in (BY_RULE, BASELINE)]
            if not judged:
                continue
            files = run.file(f"predictions/{model}/{part.name}"), run.file(f"questions/{part.name}")
            tables = [read_table(file, ["id", "answer"]).to_pydict() for file in files]
            answers, golds = (dict(zip(table["id"], table["answer"], strict=True)) for table in tables)
            for grade in judged:
                count, wrong = counts[grade.judge], grade.outcome in ("incorrect", "not_attempted")
                same = words_of(answers[grade.prediction_id]) == words_of(golds[grade.question_id])
                count["replies"] += 1
                count["copied"] += grade.reason == COPIED_EXAMPLE
                count["same"] += same and (wrong or grade.outcome == "correct")
                count["denied"] += same and wrong
    for judge, count in counts.items():
        if count["denied"]:
            yield (
                f"The judge {judge} did not call {count['denied']:,} of {count['same']:,} answers correct "
                "that are the gold answer word for word. Take another judge, and grade the answers again."
            )
        if count["copied"]:
            yield (
                f"{count['copied']:,} of {count['replies']:,} replies of the judge {judge} repeat an example of its "
                "prompt and are no verdicts. Take a stronger judge."
            )
    own = {}
    for cell in cells:  # judge and answerer are one model if they have the same name, or the same API and id
        same_engine = cell.engine.partition(",")[0] == cell.judge_engine.partition(",")[0] != ""
        if cell.judge != BASELINE and (cell.model == cell.judge or same_engine):
            own[cell.model] = cell.judge
    for model, judge in own.items():
        yield f"The judge {judge} grades answers of its own model ({model}), which favours them. Take another judge."


def _name(cell: SettingProgress) -> str:
    return str(CellKey(cell.model, setting_name(cell.setting, cell.retriever), ""))


NOTICEABLE = 0.05
"""A cell is reported if the judge gave no verdict on more than this share of its answers."""
_DETAIL_CHARACTERS = 160

REGRADE_COMMAND = "fdarx evaluate --predictions RUN --regrade JUDGE --models FILE --out NEW_RUN"


@dataclass(slots=True)
class MissingVerdicts:
    """The answers of a cell on which the judge gave no usable verdict.

    `asked` counts all answers that the judge was asked about, `reasons` those without a verdict; `examples` have the
    first grade with each reason.
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
    def example(self) -> Grade:
        """The first grade with the most frequent reason."""
        return self.examples[self.reasons.most_common(1)[0][0]]

    @property
    def sentence(self) -> str:
        """How many answers have no verdict, and the most frequent reason, without the name of the cell."""
        (reason, number), detail = self.reasons.most_common(1)[0], " ".join(self.example.detail.split())
        cut = detail if len(detail) <= _DETAIL_CHARACTERS else f"{detail[:_DETAIL_CHARACTERS]}…"
        why = f"{readable(reason)}: {cut}" if cut else readable(reason)
        why = why if number == self.reasons.total() else f"{number:,} of them: {why}"
        return (
            f"the judge {self.example.judge} gave no verdict on {self.reasons.total():,} of {self.asked:,} answers "
            f"({why}); they are unscored and count in no accuracy"
        )


def missing_verdicts(run: RunDirectory) -> list[MissingVerdicts]:
    """Return the cells of an evaluation in which a noticeable share has no verdict because of the judge.

    One part of the run is in memory at a time, of models with unscored answers alone.
    """
    cells = [cell for cell in read_records(run.file("cells.parquet"), SettingProgress) if cell.unscored]
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
    return [one for one in found.values() if one.reasons.total() > NOTICEABLE * one.asked]


def remedy(missing: Sequence[MissingVerdicts], run: str) -> str:
    """Return what to do about missing verdicts of a run: commands that show one of them and that grade again."""
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
        and not any(figure.rows for figure in accuracies)
    ]


_CLAIMS_FAILED = "claims_failed: "


@dataclass(slots=True)
class FactualityChecks:
    """Counts for checks of a run's models that cost no request.

    Attributes:
        method: how the answers were scored.
        quoted: judged pairs of a claim and a passage that has the claim word for word.
        denied: those of them that the engine did not find supported.
        pairs: pairs that the engine was given.
        unjudged: the reasons of the pairs without a usable verdict.
        answers: answers whose claims were to be extracted.
        unread: the reasons of the answers whose claims could not be extracted.
        own: models that judge their own answers, as the engine.
    """

    method: ScoringMethod
    quoted: int = 0
    denied: int = 0
    pairs: int = 0
    unjudged: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    own: set[str] = field(default_factory=set)

    def counted(self, answers: Iterable[ScoredAnswer]) -> Iterator[ScoredAnswer]:
        """Yield the answers, and count each."""
        for answered in answers:
            self.answers += answered.answer.outcome == "answered"
            failures = (
                entry.partition(_CLAIMS_FAILED)[2] for entry in answered.score.unscored if _CLAIMS_FAILED in entry
            )
            self.unread.update({failure.partition(":")[0] for failure in failures})
            if self.method.engine != ENGINE.name:
                claims = {claim.id: claim for claim in answered.claims}
                for pair in answered.pairs:
                    if pair.engine != self.method.engine or (pair.kind == "evidence" and not pair.evidence_id):
                        continue
                    self.pairs += 1
                    verdict = class_of(pair, self.method.threshold)[0]
                    if pair.entailment is None:
                        self.unjudged[pair.reason.partition(":")[0]] += 1
                    elif pair.kind == "evidence" and verdict in (SUPPORTED, CONTRADICTED, UNSUPPORTED):
                        passage = answered.evidence[pair.evidence_id].text
                        quoted = quoted_span(claims[pair.claim_id].text, passage) is not None
                        self.quoted += quoted
                        self.denied += quoted and verdict != SUPPORTED
                if answered.answer.model == self.method.engine:
                    self.own.add(answered.answer.model)
            yield answered

    def sentences(self) -> list[str]:
        """Return what limits the figures."""
        engine, claims = self.method.engine, self.method.claims
        found = []
        if self.denied:
            found.append(
                f"The verifier {engine} did not find {self.denied:,} of {self.quoted:,} claims supported by a passage "
                "in which they stand word for word. Take another verifier."
            )
        if copied := self.unjudged[COPIED_EXAMPLE]:
            found.append(
                f"On {copied:,} of {self.pairs:,} pairs the replies of {engine} repeat an example of its prompt and "
                "are no verdicts. Take a stronger model."
            )
        if self.own:
            found.append(f"The verifier {engine} judges its own answers, which favours them. Take another verifier.")
        found += _unusable(f"the verifier {engine}", "pairs of claim and passage", self.unjudged, self.pairs)
        found += _unusable(f"the model {claims}, which extracts claims,", "answers", self.unread, self.answers)
        return found


def _unusable(who: str, what: str, reasons: Counter[str], total: int) -> Iterator[str]:
    if reasons.total() > TOO_MANY * total:
        reason = reasons.most_common(1)[0][0]
        yield (
            f"The replies of {who} on {reasons.total():,} of {total:,} {what} were unusable, most as {reason}. "
            f"{meaning_of(reason)} Figures of this run cannot be compared with others."
        )
