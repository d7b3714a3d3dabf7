"""The baseline's judges of questions: what they keep, what they drop, and where they are undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fdarx_core.filters.judges import judge_tasks
from fdarx_core.llm import Undecided
from tests.filters.judged import FACTUAL, MULTIHOP, QUESTIONS, REFUSAL, by_rules, slots


def test_sensible_questions_are_kept_by_all() -> None:
    for stage in ("relevance", "support", "quality"):
        for question in QUESTIONS.values():
            found = by_rules(stage, question)
            assert (found.outcome, found.reason) == ("kept", "")


def test_support_decides_on_equal_wording_alone() -> None:
    other = by_rules("support", replace(FACTUAL, answer=FACTUAL.answer.replace("40", "80")))
    assert (other.outcome, other.reason) == ("dropped", "unsupported")
    with pytest.raises(Undecided):
        by_rules("support", replace(FACTUAL, answer="One starts with forty milligrams."))
    titled = by_rules("support", replace(FACTUAL, answer=f"Starting dose: {FACTUAL.answer}"))
    assert titled.outcome == "kept"


def test_two_passages_must_both_be_needed() -> None:
    both = by_rules("support", MULTIHOP)
    assert both.outcome == "kept" and len(both.evidence) == 2
    one = by_rules("support", replace(MULTIHOP, answer=FACTUAL.answer))
    assert (one.outcome, one.reason) == ("dropped", "supported_by_one_section")
    with pytest.raises(Undecided):
        by_rules("support", replace(MULTIHOP, answer=f"{MULTIHOP.answer} Smokers need more of it."))


def test_a_refusal_is_right_unless_the_entity_is_shown() -> None:
    named = by_rules("support", replace(REFUSAL, entity="anuria", question="Is Velorin contraindicated in anuria?"))
    assert (named.outcome, named.reason) == ("dropped", "answer_in_label")
    assert named.evidence == ["VELORIN is contraindicated in patients with anuria."]


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Is Velorin for angina started at 40 mg once daily?", "40 mg once daily.", "answer_leakage"),
        ("What dose of Velorin follows one of 25 mg?", FACTUAL.answer, "context_mismatch"),
        ("What does this section say of Velorin?", FACTUAL.answer, "low_utility"),
        ("Are Velorin tablets swallowed whole?", "Yes.", "low_utility"),
        ("What is the dose of Velorin?", "See Dosage and Administration.", "low_utility"),
        ("What is the a n g i n a dose of Velorin?", FACTUAL.answer, "other_fault"),
    ],
)
def test_faults_of_questions(question: str, answer: str, expected: str) -> None:
    found = by_rules("quality", replace(FACTUAL, question=question, answer=answer))
    assert (found.outcome, found.reason) == ("dropped", expected)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Is Velorin c o n t r a indicated in babesiosis?", "garbled"),
        ("What does this section say of Velorin in babesiosis?", "other_fault"),
    ],
)
def test_faults_of_wording_of_refusal_questions(question: str, expected: str) -> None:
    found = by_rules("quality", replace(REFUSAL, question=question))
    assert (found.outcome, found.reason) == ("dropped", expected)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which telephone number does the Velorin label give for samples?", "irrelevant_topic"),
        ("What does a pack of Velorin cost?", "irrelevant_topic"),
        ("What color are Velorin tablets?", "somewhat_relevant"),
    ],
)
def test_irrelevant_questions_are_dropped(question: str, expected: str) -> None:
    assert by_rules("relevance", replace(FACTUAL, question=question)).reason == expected


def topic(question: str, codes: Sequence[str] = (), category: str = "") -> tuple[str, str]:
    asked = {**slots("relevance", FACTUAL), "question": question, "section_codes": list(codes), "category": category}
    found = judge_tasks()["judge_relevance"].baseline(asked)
    return found.category, found.relevance


def test_a_topic_is_that_of_the_section_that_the_question_was_written_from() -> None:
    tonsils, dose = "What does the Velorin label say about tonsils?", "What dose of Velorin is recommended?"
    assert topic(tonsils, ["34070-3"]) == ("Contraindications", "relevant")
    assert topic(dose, ["34070-3", "34068-7"]) == ("Dosage & Administration", "relevant")
    assert topic(tonsils, ["34070-3", "34068-7"]) == ("Contraindications", "relevant")
    assert topic(tonsils, category="Drug Interactions") == ("Drug Interactions", "relevant")
    assert topic(dose) == ("Dosage & Administration", "relevant")
    assert topic(tonsils) == ("None / Irrelevant", "irrelevant")


def test_the_name_of_the_labeler_says_nothing_of_the_topic() -> None:
    asked = "What does the Velorin (Cost Dosage Manufacturer Inc) label say about tonsils?"
    assert topic(asked, ["34070-3"]) == ("Contraindications", "relevant")
