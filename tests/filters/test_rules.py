from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.filters import RULES, Evidence, first_failure
from fdarx_core.filters.rules import ANSWER_LENGTH, MIN_OVERLAP, QUESTION_LENGTH
from fdarx_core.filters.text import names, overlap
from fdarx_core.records import NO_ANSWER, QuestionAnswer

STORAGE = "Store Velorin tablets at 20° to 25°C in the closed bottle."
DOSE = "The recommended dose of Velorin is 40 mg once daily; the maximum daily dose is 80 mg."
EVIDENCE = Evidence(["Velorin", "velorinib mesylate"], [DOSE])
BOTH = Evidence(EVIDENCE.drug_names, [DOSE, STORAGE])
FACTUAL = QuestionAnswer(
    id="f1",
    type="factual",
    answer_kind="numeric",
    source="section",
    category="",
    set_id="s",
    drug_name="Velorin",
    question="What is the recommended dose of Velorin?",
    answer="40 mg once daily",
)
MULTIHOP = replace(
    FACTUAL,
    type="multihop",
    question="How warm may a bottle for two days at the maximum dose of Velorin stand?",
    answer="80 mg daily; store at 20° to 25°C",
)
REFUSAL = replace(
    FACTUAL, type="refusal", question="Is Velorin used in Crohn's disease?", answer=NO_ANSWER, entity="Crohn's disease"
)
REFUSED = Evidence(EVIDENCE.drug_names, label_text=f"{DOSE}\n{STORAGE}")


def reason(row: QuestionAnswer, evidence: Evidence) -> str:
    failure = first_failure(row, evidence)
    return failure[0] if failure else ""


def test_good_questions_pass() -> None:
    assert first_failure(FACTUAL, EVIDENCE) is None
    assert first_failure(MULTIHOP, BOTH) is None
    assert first_failure(REFUSAL, REFUSED) is None


def test_every_rule_has_a_name_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    ("row", "evidence", "expected"),
    [
        (replace(FACTUAL, answer=""), EVIDENCE, "missing_field"),
        (replace(FACTUAL, question=" "), EVIDENCE, "missing_field"),
        (replace(FACTUAL, drug_name=""), EVIDENCE, "missing_field"),
        (FACTUAL, Evidence(["Velorin"], []), "missing_field"),
        (FACTUAL, Evidence(["Velorin"], ["  "]), "missing_field"),
        (MULTIHOP, EVIDENCE, "missing_field"),
        (replace(REFUSAL, entity=""), REFUSED, "missing_field"),
        (REFUSAL, EVIDENCE, "missing_field"),
        (replace(FACTUAL, question="What is the dose of {drug}?"), EVIDENCE, "malformed"),
        (replace(FACTUAL, question="What is the recommended dose?"), EVIDENCE, "drug_not_named"),
        (replace(FACTUAL, question="What is the dose of Velorinax?"), EVIDENCE, "drug_not_named"),
        (replace(FACTUAL, question="Velorin?"), EVIDENCE, "question_length"),
        (replace(FACTUAL, question=f"Is Velorin {'very ' * 40}good?"), EVIDENCE, "question_length"),
        (replace(FACTUAL, answer="40"), EVIDENCE, "answer_length"),
        (replace(FACTUAL, answer="40 mg " * 101), EVIDENCE, "answer_length"),
        (
            replace(MULTIHOP, question="What is the dose of Velorin, and how is it stored?"),
            BOTH,
            "artificial_conjunction",
        ),
        (replace(FACTUAL, answer="twelve weeks of rest"), EVIDENCE, "low_overlap"),
        (replace(MULTIHOP, answer="80 mg maximum a day"), BOTH, "low_overlap"),
        (replace(REFUSAL, question="Is Velorin used in colitis?"), REFUSED, "entity_not_named"),
        (REFUSAL, replace(REFUSED, label_text="Not studied in Crohn’s  Disease."), "entity_present"),
    ],
)
def test_each_rule_drops_what_it_names(row: QuestionAnswer, evidence: Evidence, expected: str) -> None:
    assert reason(row, evidence) == expected


def test_a_joined_question_is_no_fault_outside_multihop() -> None:
    assert reason(replace(FACTUAL, question="What is the dose of Velorin, and how is it taken?"), EVIDENCE) == ""


@pytest.mark.parametrize(
    "question",
    [
        "What is the dose of VELORIN® tablets?",
        "What is Velorin's dose?",
        "How much velorinib mesylate is in one tablet?",
    ],
)
def test_a_drug_is_named_by_any_alias_in_any_case(question: str) -> None:
    assert reason(replace(FACTUAL, question=question), EVIDENCE) == ""


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("Zalvo-XR is taken daily", "zalvo xr", True),
        ("taken with Zalvo™", "ZALVO", True),
        ("Zalvosin is another drug", "Zalvo", False),
        ("anything", "®", False),
        ("anything", "", False),
    ],
)
def test_names_are_whole_words(text: str, name: str, expected: bool) -> None:
    assert names(text, name) is expected


@pytest.mark.parametrize(
    ("entity", "label_text", "present"),
    [
        ("seizure", "Seizures were reported.", True),
        ("seizures", "One seizure was reported.", True),
        ("QT prolongation", "QT-prolongation", True),
        ("ECT", "The effect is small.", False),
        ("PRES", "No pre-treatment is needed.", False),
        ("HIV", "in HIV-infected patients", True),
        ("porphyria", "no such thing", False),
    ],
)
def test_an_entity_is_present_in_singular_and_plural(entity: str, label_text: str, present: bool) -> None:
    row = replace(REFUSAL, entity=entity, question=f"Is Velorin safe in {entity}?")
    assert reason(row, replace(REFUSED, label_text=label_text)) == ("entity_present" if present else "")


def test_bounds_themselves_are_allowed() -> None:
    for length in QUESTION_LENGTH:
        question = "Velorin" + "x" * (length - 10) + " a?" if length > 10 else "Velorin a?"
        row = replace(FACTUAL, question=question.replace("Velorinx", "Velorin x")[: length - 1] + "?")
        assert len(row.question) == length
        assert reason(row, EVIDENCE) == ""
    for length in ANSWER_LENGTH:
        assert reason(replace(FACTUAL, answer=("40 mg" + " daily" * 100)[:length]), EVIDENCE) == ""


texts = st.text(max_size=700) | st.sampled_from([DOSE, STORAGE, FACTUAL.question, NO_ANSWER, "null", "{}", "?"])
rows = st.builds(
    QuestionAnswer,
    id=texts,
    type=st.sampled_from(["factual", "multihop", "refusal"]),
    answer_kind=st.just("factual"),
    source=st.just("section"),
    category=st.just(""),
    set_id=texts,
    drug_name=texts,
    question=texts | texts.map(lambda text: f"What of Velorin {text}?"),
    answer=texts,
    entity=texts,
)
evidences = st.builds(Evidence, st.lists(texts, max_size=3), st.lists(texts, max_size=3), texts)


@given(rows, evidences)
def test_no_text_makes_a_rule_raise_and_what_passes_keeps_all_bounds(row: QuestionAnswer, evidence: Evidence) -> None:
    failure = first_failure(row, evidence)
    assert failure == first_failure(row, evidence)
    if failure:
        assert failure[0] in {rule.name for rule in RULES}
        assert failure[1]
        return
    assert QUESTION_LENGTH[0] <= len(row.question) <= QUESTION_LENGTH[1]
    assert ANSWER_LENGTH[0] <= len(row.answer) <= ANSWER_LENGTH[1]
    assert row.question.endswith("?")
    assert any(names(row.question, name) for name in [row.drug_name, *evidence.drug_names])
    if row.type == "multihop":
        assert all(overlap(row.answer, context) >= MIN_OVERLAP for context in evidence.contexts)
    elif row.type == "factual":
        assert overlap(row.answer, "\n".join(evidence.contexts)) >= MIN_OVERLAP


@given(texts, texts, texts)
def test_overlap_is_a_share_that_grows_with_the_context(answer: str, context: str, more: str) -> None:
    share = overlap(answer, context)
    assert 0 <= share <= 1
    assert overlap(answer, DOSE) <= overlap(answer, f"{DOSE}\n{more}")


def test_overlap_is_full_with_itself() -> None:
    assert overlap(DOSE, DOSE) == 1
    assert overlap("", DOSE) == 0
