"""The rules on 60 claims marked by hand against passages of real labels: figures below which they must not fall."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.marked_claims import CLASSES, MARKED, MarkedClaim, confusion, figures, marked_claims, verdict
from fdarx_core.factuality.entailment.rules import RulesEntailment

LEAST_PRECISION, LEAST_RECALL = 0.75, 0.7


@pytest.fixture(scope="module")
def claims(real_labels: Path) -> list[MarkedClaim]:
    return marked_claims(real_labels)


def test_there_are_twenty_of_each_from_many_labels() -> None:
    rows = [json.loads(line) for line in MARKED.read_text(encoding="utf-8").splitlines()]
    assert Counter(row["mark"] for row in rows) == dict.fromkeys(CLASSES, 20)
    assert len({row["set_id"] for row in rows}) >= 40
    assert len({row["claim"] for row in rows}) == 60


def test_no_claim_is_copied_from_its_passage(claims: list[MarkedClaim]) -> None:
    assert not [one.pair.hypothesis for one in claims if one.pair.hypothesis.rstrip(".") in one.pair.premise]


def test_every_class_is_told_well_enough(claims: list[MarkedClaim]) -> None:
    judged = RulesEntailment().judge([one.pair for one in claims])
    counts = confusion([one.mark for one in claims], [verdict(one) for one in judged])
    found = {name: figures(counts, name) for name in CLASSES}
    assert all(one.precision >= LEAST_PRECISION and one.recall >= LEAST_RECALL for one in found.values()), found
