"""Accuracies that an evaluation states for models whose accuracy is known, with the built-in grader.

    python -m benchmarks.known_accuracy --build RUN [--shares 0.3 0.6 0.9] [--out FOLDER] [--show 5]

A loopback server answers with the gold answer (a refusal question: declines) to the questions that a hash draws with
the model's share, and else with the answer of another question of the same type about another drug (a refusal question:
with an answer). The built-in baseline answers too. `fdarx evaluate` measures all of them without a judge model. Prints
for each model, setting and type of question the share, the share that was drawn, and the accuracy that is stated with
its interval and with how many answers have a grade; "of all" is the accuracy if answers without a grade are wrong. For
refusal questions the accuracy is the share that is not answered. Then come the grades of right and wrong answers, with
examples of grades that are missing or wrong. Exits 1 where a share is outside of its interval.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import run
from fdarx_core.api import evaluate
from fdarx_core.baseline.tokens import word_overlap
from fdarx_core.evaluation.settings import CLOSED_BOOK, ORACLE, RETRIEVED
from fdarx_core.llm import Baseline, Model
from fdarx_core.records import Figure, Grade, Prediction, QuestionAnswer, content_id
from fdarx_core.storage import RunDirectory, read_records
from tests.llm.loopback_server import LoopbackServer, text_of

SETTINGS = (CLOSED_BOOK, ORACLE, RETRIEVED)
"""Refusal questions are asked in the last one alone."""
SHARES = (0.3, 0.6, 0.9)
DECLINES = "NOT_ANSWERABLE\nCITED_PASSAGES: []"
_QUESTION = "\nQuestion: "
_HASHES = 16**16
_PREFIX = "known-"
_MOST_ALIKE = 0.5
"""The share of a wrong answer's words that may be in the right one."""


@dataclass(slots=True)
class KnownModels:
    """What models of known accuracy reply to the questions of a build; the share of a model is in its name."""

    questions: Sequence[QuestionAnswer]
    _asked: dict[str, QuestionAnswer] = field(init=False)
    _pools: dict[str, list[QuestionAnswer]] = field(init=False)

    def __post_init__(self) -> None:
        self._asked = {one.question: one for one in self.questions}
        self._pools = defaultdict(list)
        for one in self.questions:
            self._pools[one.type].append(one)

    def __call__(self, body: Mapping[str, Any]) -> str:
        """Reply to a request; matches `LoopbackServer.answer`."""
        asked = f"\n{text_of(body['messages'][-1])}".rpartition(_QUESTION)[2].strip()
        return self.reply(float(body["model"].removeprefix(_PREFIX)), self._asked[asked])

    def reply(self, share: float, question: QuestionAnswer) -> str:
        if _drawn(share, question.question):
            return DECLINES if question.type == "refusal" else question.answer
        return self._wrong_answer(question)

    def is_right(self, share: float, question: QuestionAnswer) -> bool:
        """Return whether the reply is right: another label may have the same question with another answer."""
        said = self.reply(share, self._asked[question.question])
        return said == (DECLINES if question.type == "refusal" else question.answer)

    def _wrong_answer(self, question: QuestionAnswer) -> str:
        pool = self._pools["factual" if question.type == "refusal" else question.type]
        first = _number("wrong", question.question) % len(pool)
        others = (one for one in [*pool[first:], *pool[:first]] if one.drug_name != question.drug_name)
        return next(one.answer for one in others if word_overlap(one.answer, question.answer) < _MOST_ALIKE)


def _number(*parts: str) -> int:
    return int(content_id(*parts), 16)


def _drawn(share: float, question: str) -> bool:
    return _number(str(share), question) < share * _HASHES


@dataclass(frozen=True, slots=True)
class StatedAccuracy:
    """A stated accuracy: of a model in a setting on a type of question; `drawn` is the share of right replies."""

    model: str
    setting: str
    type: str
    known: float | None
    drawn: float | None
    figure: Figure

    @property
    def of_all(self) -> float | None:
        """The accuracy if every answer without a grade is wrong."""
        one = self.figure
        return None if one.value is None else one.value * one.rows / (one.rows + one.unscored)

    @property
    def is_within(self) -> bool | None:
        """Whether the interval has the known accuracy; None where there is no interval or none is known."""
        if self.known is None or self.figure.low is None or self.figure.high is None:
            return None
        return self.figure.low <= self.known <= self.figure.high

    def __str__(self) -> str:
        one = self.figure
        parts = ["–" if value is None else f"{value:.3f}" for value in (self.known, self.drawn, one.value)]
        bounds = "–" if one.low is None or one.high is None else f"{one.low:.3f} to {one.high:.3f}"
        within = {None: "", True: "yes", False: "NO"}[self.is_within]
        of_all = "–" if self.of_all is None else f"{self.of_all:.3f}"
        counts = (f"{one.rows:,}", f"{one.unscored:,}", of_all)
        columns = (self.model, self.setting, self.type, *parts, bounds, within, *counts)
        return "| " + " | ".join(columns) + " |"


@dataclass(slots=True)
class KnownAccuracy:
    """The stated accuracies, and of each known model the questions with prediction, grade and whether it was right."""

    measured: list[StatedAccuracy]
    graded: list[tuple[QuestionAnswer, Prediction, Grade, bool]]

    def confusion(self) -> Counter[tuple[str, bool, str]]:
        """Count answers by type of question, whether they are right, and the outcome of the grade."""
        return Counter((question.type, right, grade.outcome) for question, _, grade, right in self.graded)

    def misgraded(self, right: bool, outcome: str) -> list[tuple[QuestionAnswer, Prediction, Grade]]:
        """Return the answers with a grade that they should not have, each question once."""
        rows = (row for row in self.graded if row[3] == right and row[2].outcome == outcome)
        found = {row[0].id: row[:3] for row in rows if outcome != _due(row[0], right)}
        return list(found.values())


def _due(question: QuestionAnswer, right: bool) -> str:
    """Return the outcome that the grade of an answer ought to have."""
    if not right:
        return "incorrect"
    return "not_attempted" if question.type == "refusal" else "correct"


def measure(build: Path, out: Path, shares: Sequence[float] = SHARES) -> KnownAccuracy:
    """Evaluate the baseline and the known models on a build, into the folder `out`."""
    finished = RunDirectory.open(str(build))
    questions = [one for part in finished.parts("questions") for one in read_records(part, QuestionAnswer)]
    known = KnownModels(questions)
    with LoopbackServer(known, keep_calls=False) as server:
        models = [Model(f"{_PREFIX}{share:g}", base_url=server.openai_url) for share in shares]
        given: list[Model | str] = [Baseline.name, *models]
        evaluated = evaluate(finished, given, out=out, settings=SETTINGS)
    figures = list(read_records(evaluated.file("metrics.parquet"), Figure))
    shares_by_name = {model.name: share for model, share in zip(models, shares, strict=True)}
    return KnownAccuracy(list(_stated(figures, known, shares_by_name)), list(_graded(evaluated, known, shares_by_name)))


def _stated(figures: Iterable[Figure], known: KnownModels, shares: Mapping[str, float]) -> Iterable[StatedAccuracy]:
    for one in figures:
        kind = one.keys["group"]
        if one.keys["group_by"] != "type" or not one.rows or one.keys["setting"] not in SETTINGS:
            continue
        if one.metric == "hallucination_rate" and kind == "refusal":
            one = _complement(one)
        elif one.metric != "accuracy" or kind not in ("factual", "multihop"):
            continue
        share = shares.get(one.keys["model"])
        asked = [question for question in known.questions if question.type == kind]
        drawn = None if share is None else sum(known.is_right(share, question) for question in asked) / len(asked)
        yield StatedAccuracy(one.keys["model"], one.keys["setting"], kind, share, drawn, one)


def _complement(one: Figure) -> Figure:
    """Return the figure of the share that a figure leaves."""
    value, low, high = (None if bound is None else 1 - bound for bound in (one.value, one.high, one.low))
    return Figure(value, low, high, one.rows, one.clusters, one.unscored, "accuracy", one.keys)


def _graded(
    evaluated: RunDirectory, known: KnownModels, shares: Mapping[str, float]
) -> Iterable[tuple[QuestionAnswer, Prediction, Grade, bool]]:
    questions = {one.id: one for one in known.questions}
    for name, share in shares.items():
        grades = {
            one.prediction_id: one for part in evaluated.parts(f"grades/{name}") for one in read_records(part, Grade)
        }
        for part in evaluated.parts(f"predictions/{name}"):
            for prediction in read_records(part, Prediction):
                question = questions[prediction.question_id]
                yield question, prediction, grades[prediction.id], known.is_right(share, question)


def main(*, build: Path, shares: tuple[float, ...] = SHARES, out: Path | None = None, show: int = 5) -> int:
    """Print the accuracies and the grades."""
    with tempfile.TemporaryDirectory() as folder:
        found = measure(build, out or Path(folder) / "evaluation", shares)
    print("| model | setting | type | known | drawn | stated | interval | within | graded | no grade | of all |")
    print("|---|---|---|--:|--:|--:|---|---|--:|--:|--:|")
    print("\n".join(map(str, found.measured)))
    print("\n| type | the answer is | graded | answers |\n|---|---|---|--:|")
    for (kind, right, outcome), count in sorted(found.confusion().items()):
        print(f"| {kind} | {'right' if right else 'wrong'} | {outcome} | {count:,} |")
    outcomes = ("correct", "incorrect", "not_attempted", "unscored")
    for right, outcome in product((False, True), outcomes):
        for question, prediction, grade in found.misgraded(right, outcome)[:show]:
            print(f"\n{'right' if right else 'wrong'} answer graded {outcome} ({grade.reason}: {grade.detail})")
            print(f"  question: {question.question}\n  gold: {question.answer}\n  answer: {prediction.answer}")
    return int(any(one.is_within is False for one in found.measured))


if __name__ == "__main__":
    run(main)
