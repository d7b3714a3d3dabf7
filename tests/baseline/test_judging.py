"""The baseline's judges: what they keep, what they drop and why, and that what they quote is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.filters.judges import judge_tasks
from fdarx_core.labels.loinc import (
    ADVERSE,
    CONTRAINDICATIONS,
    DOSAGE,
    FORMS,
    INDICATIONS,
    INTERACTIONS,
    PHARMACOKINETICS,
    POPULATIONS,
    SAFETY,
)
from fdarx_core.records import QuestionAnswer
from tests.filters.judged import FACTUAL, MULTIHOP, QUESTIONS, REFUSAL, by_rules, judge, slots


def judged(stage: str, question: QuestionAnswer) -> tuple[str, str]:
    found = by_rules(stage, question)
    return found.outcome, found.reason


@pytest.mark.parametrize(
    ("question", "code", "expected"),
    [
        ("What is Velorin approved for?", "", INDICATIONS),
        ("How much Velorin may be taken in a day?", "34068-7", DOSAGE),
        ("What are the inactive ingredients of Velorin?", "34089-3", FORMS),
        ("In which patients is Velorin contraindicated?", "34070-3", CONTRAINDICATIONS),
        ("What does the Velorin label warn about liver injury?", "43685-7", SAFETY),
        ("How common is dizziness with Velorin?", "34084-4", ADVERSE),
        ("Does Velorin interact with warfarin?", "34073-7", INTERACTIONS),
        ("May Velorin be used during pregnancy?", "42228-7", POPULATIONS),
        ("What is the half-life of Velorin?", "43682-4", PHARMACOKINETICS),
        ("What does the Velorin label say about tonsils?", "34070-3", CONTRAINDICATIONS),
    ],
)
def test_topic(question: str, code: str, expected: str) -> None:
    reply = judge_tasks()["judge_relevance"].baseline(
        {
            "drug": "Velorin",
            "question": question,
            "sections": [""] if code else [],
            "section_codes": [code] * bool(code),
        }
    )
    assert (reply.category, reply.relevance) == (expected, "relevant")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which telephone number does the Velorin label give for samples?", "irrelevant_topic"),
        ("When was the Velorin label last revised?", "irrelevant_topic"),
        ("Who wrote a poem on Velorin?", "irrelevant_topic"),
        ("What color are Velorin tablets?", "somewhat_relevant"),
        ("How should unused Velorin be disposed of?", "somewhat_relevant"),
    ],
)
def test_irrelevant_questions_are_dropped(question: str, expected: str) -> None:
    assert judged("relevance", replace(FACTUAL, question=question)) == ("dropped", expected)


def test_sensible_questions_are_kept_by_all() -> None:
    for stage in ("relevance", "support", "quality"):
        for question in QUESTIONS.values():
            if judge(stage).task(question):
                assert judged(stage, question) == ("kept", "")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The starting dose is 40 mg, once a day.", "kept"),
        ("80 mg once daily.", "dropped"),
        ("40 mg twice daily with grapefruit, reduced in smokers.", "dropped"),
        ("4 mg", "dropped"),
    ],
)
def test_support_needs_the_numbers_and_most_words(answer: str, expected: str) -> None:
    assert by_rules("support", replace(FACTUAL, answer=answer)).outcome == expected


def test_evidence_is_the_sentence() -> None:
    found = by_rules("support", FACTUAL)
    assert found.evidence == ["For angina, the recommended starting dose of VELORIN is 40 mg once daily."]
    hops = by_rules("support", MULTIHOP)
    assert hops.evidence == [
        "For angina, the recommended starting dose of VELORIN is 40 mg once daily.",
        "In patients with moderate hepatic impairment, exposure to velorin doubles; give half the usual starting dose.",
    ]


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("The starting dose for angina is 40 mg once daily.", [0, 1], ("dropped", "one_section_enough")),
        (MULTIHOP.answer, [0, 0], ("dropped", "one_section_enough")),
        (MULTIHOP.answer.replace("40", "60"), [0, 1], ("dropped", "unsupported")),
        ("The starting dose for angina is 40 mg once daily.", [0, 2], ("dropped", "one_section_enough")),
    ],
)
def test_two_passages_must_both_be_needed(answer: str, gold: list[int], expected: tuple[str, str]) -> None:
    found = judged("support", replace(MULTIHOP, answer=answer, gold_passages=gold))
    assert found[0] == expected[0]
    assert found[1] in (expected[1], "supported_by_one_section", "unsupported")


@pytest.mark.parametrize(("number", "expected"), [("20", "kept"), ("80", "kept"), ("30", "dropped")])
def test_a_number_may_be_computed_from_others(number: str, expected: str) -> None:
    answer = f"{number} mg once daily, as 40 mg once daily for angina and moderate hepatic impairment give."
    assert by_rules("support", replace(MULTIHOP, answer=answer)).outcome == expected


def test_a_refusal_is_right_unless_the_entity_is_shown() -> None:
    assert judged("support", REFUSAL) == ("kept", "")
    named = by_rules("support", replace(REFUSAL, entity="anuria", question="Is Velorin contraindicated in anuria?"))
    assert (named.outcome, named.reason) == ("dropped", "answer_in_label")
    assert named.evidence == ["VELORIN is contraindicated in patients with anuria."]


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Is Velorin for angina started at 40 mg once daily?", "40 mg once daily.", "answer_leakage"),
        ("What dose of Velorin is recommended for infants with angina?", FACTUAL.answer, "context_mismatch"),
        ("What dose of Velorin goes with warfarin?", FACTUAL.answer, "context_mismatch"),
        ("What dose of Velorin follows one of 25 mg?", FACTUAL.answer, "context_mismatch"),
        ("What does this section say of Velorin?", FACTUAL.answer, "low_utility"),
        ("Are Velorin tablets swallowed whole?", "Yes.", "low_utility"),
        ("What is the dose of Velorin?", "See Dosage and Administration.", "low_utility"),
        ("What is the a n g i n a dose of Velorin?", FACTUAL.answer, "other_fault"),
        ("How is Velorin stored?", "In a refrigerator, protected from moisture.", "unanswerable"),
    ],
)
def test_faults_of_factual_questions(question: str, answer: str, expected: str) -> None:
    assert judged("quality", replace(FACTUAL, question=question, answer=answer)) == ("dropped", expected)


def test_a_denial_is_no_leak() -> None:
    question = replace(
        FACTUAL,
        question="Is the dose of Velorin to be halved in hepatic impairment?",
        answer="The dose is not to be halved in hepatic impairment.",
        gold_passages=[1],
    )
    assert judged("quality", question)[1] != "answer_leakage"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"question": "What dose of Velorin suits angina?", "gold_passages": [0, 0]}, "one_sided"),
        ({"question": "How does the color of Velorin bear on its dose in hepatic impairment?"}, "hop_mismatch"),
        ({"question": "What dose of Velorin suits a patient on warfarin?"}, "unanswerable"),
        ({"question": "What does the table give for Velorin?", "answer": "Yes"}, "other_fault"),
        (
            {
                "question": "Why give half the dose of Velorin as exposure doubles in moderate hepatic impairment?",
                "answer": "40 mg once daily for angina; give half as exposure doubles in moderate hepatic impairment.",
            },
            "leak_from_context",
        ),
    ],
)
def test_faults_of_multihop_questions(change: dict[str, Any], expected: str) -> None:
    assert judged("quality", replace(MULTIHOP, **change)) == ("dropped", expected)


TEXT = st.text(st.sampled_from("abc DEF 12.5 %.,;:!?()[]{}\n\t°≥–'\"\\*+|$^"), max_size=60)


@given(question=TEXT, answer=TEXT, entity=TEXT, kind=st.sampled_from(sorted(QUESTIONS)))
def test_any_question_gets_a_verdict_and_what_is_quoted_is_found(
    question: str, answer: str, entity: str, kind: str
) -> None:
    asked = replace(QUESTIONS[kind], question=question, answer=answer, entity=entity)
    for stage in ("relevance", "support", "quality"):
        if judge(stage).task(asked):
            assert by_rules(stage, asked).outcome in ("kept", "dropped")


@pytest.mark.parametrize("stage", ["relevance", "support", "quality"])
def test_equal_slots_equal_reply(stage: str) -> None:
    for question in QUESTIONS.values():
        if task := judge(stage).task(question):
            assert task.baseline(slots(stage, question)) == task.baseline(slots(stage, question))
