"""The model of the sections that questions ask for."""

from __future__ import annotations

from math import fsum

import pytest

from fdarx_core.labels.loinc import SECTION_GROUPS
from fdarx_core.labels.question_sections import (
    NO_SECTION,
    SectionClassifier,
    WrittenQuestion,
    asked_sections,
    word_stems,
    written_questions,
)


def test_sections_of_a_writer_are_found_by_a_model_of_the_others() -> None:
    rows = written_questions()
    for writer in {one.writer for one in rows}:
        model = SectionClassifier(one for one in rows if one.writer != writer)
        asked = [one for one in rows if one.writer == writer]
        found = 0
        for one in asked:
            odds = model.probabilities(one.text)
            found += odds.get(one.group, 0.0) == max(odds.values())
        assert found >= 0.65 * len(asked)


def test_probabilities_of_all_groups_add_up_to_one() -> None:
    for question in ("", "How should it be stored?", "zzz qqq"):
        odds = asked_sections(question)
        assert fsum(odds.values()) == pytest.approx(1)
        assert set(odds) == {*SECTION_GROUPS.values()} & set(odds) | {NO_SECTION}


def test_a_question_in_other_words_than_the_title_of_its_section() -> None:
    odds = asked_sections("Which patients must never be given it?")
    assert max(odds, key=lambda group: odds[group]) == "34070-3"


def test_a_model_of_two_questions_by_hand() -> None:
    model = SectionClassifier([WrittenQuestion("a", "1", "store DRUG"), WrittenQuestion("b", "1", "dose")])
    # "store" has 1.05 of 1.1 in a, 0.05 of 1.1 in b (two features, 0.05 added): the odds are √21 with the scale 0.5
    odds = model.probabilities("store")
    assert odds["a"] / odds["b"] == pytest.approx(21**0.5, rel=1e-4)


def test_numbers_are_one_stem_and_the_name_is_left_out() -> None:
    assert word_stems("DRUG 2.5 mg tablets") == ["0", "0", "mg", "tablet"]


def test_groups_of_sections_are_sections() -> None:
    assert {*SECTION_GROUPS.values()} <= {*SECTION_GROUPS}
    assert all(SECTION_GROUPS[group] == group for group in SECTION_GROUPS.values())


def test_forms_of_a_word_have_one_stem() -> None:
    assert len({*word_stems("dose doses dosing dosage dosages")}) == 1
    assert len({*word_stems("store stored storage")}) == 1
    assert word_stems("use age") == ["use", "age"]
