"""The baseline's answers: what it finds, what it cites, and when it declines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.baseline.answering import from_gold
from fdarx_core.evaluation.predictions import ANSWER_TASKS, EVALUATION_RULES_VERSION, prediction_from_response
from fdarx_core.evaluation.settings import (
    CLOSED_BOOK,
    FULL_LABEL,
    ORACLE,
    RETRIEVED,
    SETTINGS,
    TokenBudget,
    prompt_context,
)
from fdarx_core.llm import Baseline
from fdarx_core.records import Passage, Prediction, QuestionAnswer

SET_ID = "label-a"
BASELINE = Baseline({task.name: task for task in ANSWER_TASKS.values()}, EVALUATION_RULES_VERSION)


def passage(number: int, section: str, text: str) -> Passage:
    return Passage(SET_ID, number, 0, "", "", "", section, section, text)


LABEL = [
    passage(0, "INDICATIONS", "VELORIN is indicated for the treatment of angina in adults."),
    passage(
        1,
        "DOSAGE > Recommended Dosage",
        "Dose for angina\nKidneys matter. Start VELORIN at 40 mg once daily for angina [see Warnings (5)].",
    ),
    passage(
        2,
        "WARNINGS > Hepatotoxicity",
        "Liver injury was reported in 3% of patients. [See Liver Tests and Liver Injury Reported (5.1).]",
    ),
    passage(
        3,
        "DESCRIPTION",
        "The inactive ingredients are:\n- lactose monohydrate,\n- talc,\n- magnesium stearate.\nTablets are white.",
    ),
    passage(4, "INTERACTIONS", "Type: | Warfarin raises the risk of bleeding | Monitor the INR with warfarin"),
]
QUESTION = QuestionAnswer(
    "q",
    "factual",
    "numeric",
    "section",
    "",
    SET_ID,
    "Velorin",
    "What dose of Velorin is started in angina?",
    "",
    [1],
    [""],
    [True],
)


def answered(setting: str, question: QuestionAnswer, room: TokenBudget | None = None) -> Prediction:
    seen = prompt_context(setting, question, LABEL, LABEL, room)
    request = ANSWER_TASKS[setting].request(seen.slots, endpoint="baseline", sampling=BASELINE.sampling)
    (response,) = BASELINE.answer([request])
    return prediction_from_response(("baseline", setting, ""), question, seen, ANSWER_TASKS[setting], response)


def asking(question: str, **changes: object) -> QuestionAnswer:
    return replace(QUESTION, question=question, **changes)  # type: ignore[arg-type]


def test_without_a_label_it_knows_nothing() -> None:
    assert answered(CLOSED_BOOK, QUESTION).outcome == "refused"


@pytest.mark.parametrize("setting", [FULL_LABEL, RETRIEVED])
def test_the_sentence_with_the_figure_is_found_and_cited(setting: str) -> None:
    found = answered(setting, QUESTION)
    assert found.answer == "Start VELORIN at 40 mg once daily for angina."
    assert (found.outcome, found.cited, found.cited_unknown) == ("answered", [1], 0)


@pytest.mark.parametrize(
    ("question", "expected", "cited"),
    [
        ("What liver injury was reported?", "Liver injury was reported in 3% of patients.", [2]),
        (
            "What are the inactive ingredients of Velorin?",
            "The inactive ingredients are: lactose monohydrate; talc; magnesium stearate.",
            [3],
        ),
        (
            "How does warfarin interact with Velorin?",
            "Type: Warfarin raises the risk of bleeding; Monitor the INR with warfarin.",
            [4],
        ),
    ],
)
def test_lists_and_rows_are_spoken_whole(question: str, expected: str, cited: list[int]) -> None:
    found = answered(FULL_LABEL, asking(question))
    assert (found.answer, found.cited) == (expected, cited)


def test_two_things_asked_for_come_from_two_passages() -> None:
    found = answered(
        FULL_LABEL, asking("Why is Velorin started at 40 mg in angina, and what liver injury was reported?")
    )
    assert set(found.cited) == {1, 2}


def test_the_gold_passages_each_give_a_sentence() -> None:
    question = asking("How does liver injury bear on the dose?", gold_passages=[1, 2], gold_has_answer=[True, True])
    found = answered(ORACLE, question)
    assert "40 mg" in found.answer
    assert "Liver injury" in found.answer
    assert found.cited == []


@pytest.mark.parametrize(
    "question",
    [
        "Should Velorin be avoided in patients with trigeminal neuralgia?",
        "Which dose of Velorin suits CYP2D6 poor metabolizers?",
        "Does echinacea interact with Velorin?",
    ],
)
@pytest.mark.parametrize("setting", [FULL_LABEL, RETRIEVED])
def test_what_the_label_never_names_is_declined(setting: str, question: str) -> None:
    found = answered(setting, asking(question, type="refusal"))
    assert (found.outcome, found.cited) == ("refused", [])


def test_another_form_of_a_word_is_no_absence() -> None:
    assert answered(FULL_LABEL, asking("Which hepatotoxic effects of Velorin were reported?")).outcome == "answered"


def test_what_is_cut_off_is_not_known() -> None:
    room = TokenBudget(label_chars=120)
    assert answered(FULL_LABEL, asking("What liver injury was reported with Velorin?"), room).outcome == "refused"


@given(
    st.text(st.sampled_from("abc angina dose 40 mg %.,:;?![]()|\n-"), max_size=80),
    st.sampled_from(SETTINGS),
    st.text(max_size=9),
)
def test_any_question_gets_a_reply_that_cites_only_what_is_shown(question: str, setting: str, drug: str) -> None:
    asked = asking(question, drug_name=drug)
    found = answered(setting, asked)
    assert found.outcome in ("answered", "refused")
    assert set(found.cited) <= set(found.shown)
    assert found == answered(setting, asked)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Monitor renal function in older patients [see Warnings (5)] .", "Monitor renal function in older patients."),
        ("Clearance falls with age [see Pharmacology]. .", "Clearance falls with age."),
        (
            "(See CONTRAINDICATIONS, Preexisting Asthma .\nBronchospasm occurred in patients with asthma.",
            "Bronchospasm occurred in patients with asthma.",
        ),
        ("Nausea | Velorin (N = 40): 12% | Placebo: 8%", "Nausea; Velorin (N = 40): 12%; Placebo: 8%."),
        ("Nausea: | 12%", "Nausea: 12%."),
    ],
)
def test_cross_references_leave_nothing_behind_and_rows_are_whole(text: str, expected: str) -> None:
    assert from_gold({"question": "", "drug": "", "passages": [{"section": "", "text": text}]}) == expected
