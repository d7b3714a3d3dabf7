"""The contraindication table of all real labels."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from fdarx_core.baseline.stems import stems
from fdarx_core.factuality.safety import ContraindicationTable, SafetyFlagger
from fdarx_core.labels import find_sources, parse_document, read_source
from fdarx_core.records import CheckedAnswer, Reject

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def safety(real_labels: Path) -> SafetyFlagger:
    documents = (one for source in find_sources([str(real_labels)]).sources for one in read_source(source))
    return SafetyFlagger(parse_document(one[1], one[0].name) for one in documents if not isinstance(one, Reject))


@pytest.fixture(scope="module")
def table(safety: SafetyFlagger) -> ContraindicationTable:
    return safety.table


def test_nearly_all_labels_forbid_something(table: ContraindicationTable) -> None:
    assert len({row.set_id for row in table.rows}) >= 780
    kinds = Counter(row.kind for row in table.rows)
    assert set(kinds) == {"population", "condition", "drug", "procedure"} and min(kinds.values()) >= 50


def test_subjects_are_whole_and_in_the_words_of_their_statements(table: ContraindicationTable) -> None:
    for row in table.rows:
        assert row.subject.count("(") == row.subject.count(")"), row
        assert not re.search(r"\bsee\b|WARNINGS|PRECAUTIONS|[\[\]]", row.subject), row
        said = set(stems(row.statement.lower()))
        words = set(stems(row.subject.lower().replace("concomitant use of", "").replace("patients", "")))
        assert words <= said, (words - said, row)


def test_ingredients_merge_over_their_labels(table: ContraindicationTable) -> None:
    entries = table.of("metformin hydrochloride")
    assert max(entry.labels for entry in entries) >= 50
    assert any("below 30" in entry.subject and entry.kind == "condition" for entry in entries)


def test_advice_against_a_label_is_flagged_and_with_it_is_not(safety: SafetyFlagger) -> None:
    def kinds(question: str, answer: str) -> list[str]:
        return [flag.kind for flag in safety.flags_of(CheckedAnswer("a", "q", question, answer, "m"))]

    question = "Can a patient with an eGFR of 20 take metformin?"
    assert kinds(question, "Yes, metformin is safe.") == ["contraindicated_condition"]
    assert kinds(question, "No, metformin is contraindicated below 30.") == []
    assert kinds("What is the maximum daily dose of metformin?", "It is 7500 mg.") == ["dose_unsupported"]
    assert kinds("What is the maximum daily dose of metformin?", "It is 2550 mg.") == []
