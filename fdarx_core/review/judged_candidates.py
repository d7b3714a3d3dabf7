"""The judged candidates: 400 questions on the example labels, each marked good or bad by reading.

They measure the rules, judges and round trip of a build; `judged/README.md` says how they were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Literal, get_args

import orjson

from fdarx_core.labels import Identity, Source, identify, parse_document
from fdarx_core.labels.loinc import topic_of
from fdarx_core.records import Label, Passage, QuestionAnswer

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
            source={"factual": "section", "multihop": "section_pair", "refusal": "twin"}[self.type],
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
    return [one for one in _all_judged() if one.part == part]


@cache
def _all_judged() -> tuple[JudgedCandidate, ...]:
    names = [field.name for field in fields(JudgedCandidate)]
    rows: list[dict[str, Any]] = [orjson.loads(line) for line in _candidates().splitlines()]
    return tuple(JudgedCandidate(**{name: row[name] for name in names}) for row in rows)


def _candidates() -> bytes:
    return _CANDIDATES.read_bytes()


def set_digest() -> str:
    """Return a digest of the candidates and their marks."""
    return sha256(_candidates()).hexdigest()[:16]


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
