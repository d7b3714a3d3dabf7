"""The judged candidates: 400 questions on the example labels, each marked good or bad by reading.

They measure how well the rules, judges and round trip of a build tell good candidates from bad ones;
`judged/README.md` says how they were made.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Literal, Self, get_args

import orjson

from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.labels import Identity, Source, identify, parse_document
from fdarx_core.labels.loinc import topic_of
from fdarx_core.records import Estimate, Label, Passage, QuestionAnswer
from fdarx_core.records.question_types import QUESTION_TYPES

PartName = Literal["tune", "test"]
PARTS: tuple[PartName, ...] = get_args(PartName)
"""The halves of the set, which have no drug in common: one to tune filters on, and one to read once."""

_CANDIDATES = files(__package__) / "judged" / "candidates.jsonl"
_LABELS = files("fdarx_core") / "examples" / "labels"
_SUPERSEDED = "mirsolve-er-tablets-2019.xml"
"""A label whose set id a later version has too; the set is on the later one."""


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """A candidate question with its mark.

    The first fields are as in `QuestionAnswer`. `good` is the mark; `failure` is the class of what is wrong, "" for a
    good one; `reason` says why in words; `part` is the half of the set.
    """

    id: str
    set_id: str
    type: str
    question: str
    answer: str
    gold_passages: list[int]
    entity: str
    good: bool
    failure: str
    reason: str
    part: PartName

    def question_of(self, label: Label, passages: Sequence[Passage]) -> QuestionAnswer:
        """Return the candidate as a generator's question on its label; `passages` are all of the label's.

        A question without gold passages has no topic, because nothing tells what it was written from.
        """
        gold = [passages[index] for index in self.gold_passages]
        return QuestionAnswer(
            id=self.id,
            type=self.type,
            answer_kind=self.type,
            source=QUESTION_TYPES[self.type].source,
            category=topic_of(gold[0].core_code) if gold else "",
            set_id=self.set_id,
            drug_name=label.drug_name,
            question=self.question,
            answer=self.answer,
            gold_passages=self.gold_passages,
            gold_codes=[passage.section_code for passage in gold],
            gold_has_answer=[True] * len(gold),
            entity=self.entity,
        )


def read_judged(part: PartName) -> list[JudgedCandidate]:
    """Return the candidates of one half, in the order of the file."""
    names = [field.name for field in fields(JudgedCandidate)]
    rows: list[dict[str, Any]] = [orjson.loads(line) for line in _CANDIDATES.read_bytes().splitlines()]
    return [JudgedCandidate(**{name: row[name] for name in names}) for row in rows if row["part"] == part]


def set_digest() -> str:
    """Return a digest of the candidates and their marks."""
    return sha256(_CANDIDATES.read_bytes()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class JudgedLabel:
    """A label of the set, with its passages in document order."""

    identity: Identity
    label: Label
    passages: list[Passage]


@cache
def judged_labels() -> dict[str, JudgedLabel]:
    """Return the labels that the candidates are on, by set id."""
    found: dict[str, JudgedLabel] = {}
    for file in sorted(_LABELS.iterdir(), key=lambda file: file.name):
        if file.name != _SUPERSEDED:
            data = file.read_bytes()
            label, passages = parse_document(data, file.name)
            found[label.set_id] = JudgedLabel(identify(data, Source(file.name)), label, passages)
    return found


StageResult = Literal["kept", "dropped", "unscored"]
RESULTS: tuple[StageResult, ...] = get_args(StageResult)
CHAIN = "chain"
"""The name of all stages together, among the stages."""
ALL = "all"


@dataclass(slots=True)
class StageOutcome:
    """What one stage made of one candidate. Each stage sees every candidate, whatever the other stages decide.

    `reason` is a fixed name to count by, "" for a candidate that is kept; `detail` explains this case.
    """

    id: str
    stage: str
    outcome: str
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StageScore:
    """The counts of one stage over a group of candidates, by mark and outcome: `bad_dropped`, `good_unscored` …

    The group is all of them, or those of one type or class of failure, which `by` names. Positive is "bad": a dropped
    candidate is found to be bad. An unscored one is neither dropped nor kept; a build does not keep it either.
    """

    stage: str
    by: str
    group: str
    counts: Mapping[str, int]

    def count(self, good: bool | None = None, outcome: StageResult | None = None) -> int:
        """Return the number of candidates with this mark and outcome; None stands for any."""
        marks = (True, False) if good is None else (good,)
        outcomes = RESULTS if outcome is None else (outcome,)
        return sum(self.counts.get(_key(mark, made), 0) for mark in marks for made in outcomes)

    def figure(self, name: str) -> Estimate:
        """Return a figure of `FIGURES`, with its interval."""
        _, counted, of = FIGURES[name]
        return share(self.count(*counted), self.count(*of))

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the score that `to_row` made the row of."""
        return cls(row["stage"], row["by"], row["group"], row["counts"])

    def to_row(self) -> dict[str, Any]:
        """Return the counts, and the figures as [value, low, high], each null where there is none."""
        counts = {_key(good, made): self.count(good, made) for good in (True, False) for made in RESULTS}
        figures = {name: self.figure(name) for name in FIGURES}
        shown = {name: [figure.value, figure.low, figure.high] for name, figure in figures.items()}
        return {"stage": self.stage, "by": self.by, "group": self.group, "counts": counts, **shown}


def _key(good: bool, outcome: str) -> str:
    return f"{'good' if good else 'bad'}_{outcome}"


_Cell = tuple[bool | None, StageResult | None]
FIGURES: dict[str, tuple[str, _Cell, _Cell]] = {
    "precision": ("dropped are bad", (False, "dropped"), (None, "dropped")),
    "recall": ("bad are dropped", (False, "dropped"), (False, None)),
    "good_kept": ("good are kept", (True, "kept"), (True, None)),
    "kept_good": ("kept are good", (True, "kept"), (None, "kept")),
}
"""Each figure's column, and mark and outcome of the candidates that it counts and of those that they are a share of."""
_Z = 1.959964


def share(found: int, of: int) -> Estimate:
    """Return a share with its 95 % interval by Wilson's method, which holds for few rows and for shares of 0 and 1."""
    if not of:
        return Estimate(None)
    value, squared = found / of, _Z**2
    middle = (value + squared / (2 * of)) / (1 + squared / of)
    half = _Z / (1 + squared / of) * math.sqrt(value * (1 - value) / of + squared / (4 * of**2))
    return Estimate(value, max(0.0, middle - half), min(1.0, middle + half), rows=of)


def chain_outcomes(outcomes: Iterable[StageOutcome]) -> list[StageOutcome]:
    """Return what all stages together make of each candidate, with the reason of the first stage that decides it.

    A candidate is dropped if one stage drops it, else unscored if it is unscored at one.
    """
    by_id: dict[str, list[StageOutcome]] = {}
    for outcome in outcomes:
        by_id.setdefault(outcome.id, []).append(outcome)
    chained = []
    for id_, listed in by_id.items():
        against = [made for wanted in ("dropped", "unscored") for made in listed if made.outcome == wanted]
        if against:
            first = against[0]
            chained.append(StageOutcome(id_, CHAIN, first.outcome, f"{first.stage}: {first.reason}", first.detail))
        else:
            chained.append(StageOutcome(id_, CHAIN, "kept"))
    return chained


def score_stages(candidates: Sequence[JudgedCandidate], outcomes: Sequence[StageOutcome]) -> list[StageScore]:
    """Return the scores of each stage and of the chain: over all candidates, by type, and by class of failure."""
    marks = {candidate.id: candidate for candidate in candidates}
    counted: dict[tuple[str, str, str], Counter[str]] = {}
    for made in (*outcomes, *chain_outcomes(outcomes)):
        mark = marks[made.id]
        groups = [(ALL, ALL), ("type", mark.type), *([] if mark.good else [("failure", mark.failure)])]
        for by, group in groups:
            counted.setdefault((made.stage, by, group), Counter())[_key(mark.good, made.outcome)] += 1
    return [StageScore(*key, counts) for key, counts in counted.items()]


def count_lines(scores: Iterable[StageScore]) -> list[str]:
    """Return the counts of each stage over all candidates, as lines of text."""
    heads = " ".join(f"{outcome:>9}" for outcome in RESULTS)
    lines = [f"{'':<12} {'good':>9} {'':>19} {'bad':>9}".rstrip(), f"{'stage':<12} {heads} {heads}"]
    for score in scores:
        if score.by == ALL:
            counts = [score.count(good, outcome) for good in (True, False) for outcome in RESULTS]
            lines.append(f"{score.stage:<12} " + " ".join(f"{count:>9}" for count in counts))
    return lines


def score_tables(scores: Sequence[StageScore]) -> list[ResultTable]:
    """Return the figures of each stage over all candidates and by type, then the recall by class of failure."""
    groups: dict[tuple[str, str], list[StageScore]] = {}
    for score in scores:
        groups.setdefault((score.by, score.group), []).append(score)
    failures = {group: groups.pop((by, group)) for by, group in sorted(groups) if by == "failure"}
    tables: list[ResultTable] = []
    for by, group in sorted(groups, key=lambda key: (key[0] != ALL, key)):
        stages = groups[by, group]
        what = "All candidates" if by == ALL else f"{group.capitalize()} candidates"
        title = f"{what}: {stages[0].count(True)} good, {stages[0].count(False)} bad"
        rows: list[tuple[str, list[Estimate | None]]] = [
            (score.stage, [score.figure(name) for name in FIGURES]) for score in stages
        ]
        tables.append(ResultTable(title, "stage", [("", column) for column, *_ in FIGURES.values()], rows))
    columns = list(dict.fromkeys(score.stage for score in scores if score.by == "failure"))
    recalls = {key: {score.stage: score.figure("recall") for score in stages} for key, stages in failures.items()}
    title = "Share of the bad candidates that are dropped, by class of failure (number of candidates)"
    named: list[tuple[str, list[Estimate | None]]] = [
        (f"{key} ({stages[-1].count()})", [recalls[key][stage] for stage in columns])
        for key, stages in failures.items()
    ]
    return [*tables, ResultTable(title, "failure", [("", stage) for stage in columns], named)]
