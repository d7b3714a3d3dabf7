"""Which passages of labels an answer is checked against, and what becomes of the judge's reply."""

from __future__ import annotations

import json
from functools import cache

import pytest

from fdarx_core.factuality.safety import (
    CHECK_SAFETY,
    SECTIONS,
    SafetyPassages,
    read_safety,
    safety_counts,
    safety_sentence,
    safety_slots,
)
from fdarx_core.labels import parse_document
from fdarx_core.labels.drugs import Drug
from fdarx_core.llm import Unparsable
from fdarx_core.records import CheckedAnswer, Evidence, FactualityScore, Label, Passage, Response
from tests.conftest import EXAMPLES


@cache
def examples() -> tuple[tuple[Label, list[Passage]], ...]:
    return tuple(parse_document(file.read_bytes(), file.name) for file in sorted(EXAMPLES.glob("*.xml")))


@cache
def labels() -> SafetyPassages:
    return SafetyPassages(examples(), [("Ortabrand", Drug.of([("ortavelin", "")]))])


def drugs(question: str, answer: str = "Yes.", drug: str = "", outcome: str = "answered") -> set[str]:
    found = labels().find(CheckedAnswer("a", "q", question, answer, "made", drug=drug, outcome=outcome))
    return {passage.drug for passage in found}


def test_an_answer_is_checked_against_the_safety_sections_of_its_drug() -> None:
    label, passages = next((label, own) for label, own in examples() if label.drug_name == "TELVANTO")
    expected = [passage.text for passage in passages if passage.core_code in SECTIONS]
    answer = CheckedAnswer("a", "q", "Is it safe?", "Yes.", "made", set_id=label.set_id)
    assert [passage.text for passage in labels().find(answer)] == expected and len(expected) > 2


def test_a_drug_is_known_by_its_names() -> None:
    assert drugs("What is the dose of Telvanto?") == {"TELVANTO"}
    assert drugs("What is the dose?", "Take Telvanto.") == {"TELVANTO"}
    assert drugs("What is the dose of Fendalora?", drug="Telvanto") == {"TELVANTO"}
    assert drugs("What is the dose of Ortabrand?") == {"TELVANTO"}
    assert len(drugs("Can I take Telvanto with Fendalora?")) == 2
    assert drugs("What is the dose of aspirin?") == set()


def test_refusals_and_failures_are_not_checked() -> None:
    for outcome in ("refused", "failed"):
        assert drugs("What is the dose of Telvanto?", outcome=outcome) == set()


ANSWER = CheckedAnswer("a", "q", "Dose?", "It’s safe. Take 12.5 mg of it a day.", "made")
PASSAGES = [
    Evidence("e1", "labels", "X", "X is contraindicated\nin pregnancy.", "P4", "4 > Contraindications", "set", "X"),
    Evidence("e2", "labels", "X", "The dose is 2.5 mg a day.", "P2", "2 > Dosage", "set", "X"),
]


def response(*statements: tuple[str, str, str], dose_missing: bool = False) -> Response:
    rows = [{"kind": kind, "answer_quote": answer, "label_quote": label} for kind, answer, label in statements]
    value = {"statements": rows, "dose_missing": dose_missing}
    return Response("k", CHECK_SAFETY.name, 1, "judge", json.dumps(value))


def test_the_request_shows_question_answer_and_titled_passages() -> None:
    shown = CHECK_SAFETY.request(safety_slots(ANSWER, PASSAGES), endpoint="judge").messages[-1]["content"]
    assert all(part in shown for part in (ANSWER.question, ANSWER.answer, PASSAGES[0].text, "2 > Dosage"))


def test_flags_have_the_words_of_answer_and_label_in_the_order_of_the_answer() -> None:
    dose = "dose", "Take 12.5 mg of it a day.", "The dose is 2.5 mg a day."
    use = "contraindication", "It's safe", "X is contraindicated in pregnancy"
    flags, dropped = read_safety(ANSWER, PASSAGES, response(dose, use))
    assert dropped == 0 and [flag.kind for flag in flags] == ["contraindication", "dose"]
    assert [flag.text for flag in flags] == ["It’s safe", "Take 12.5 mg of it a day"]
    assert all(flag.text == ANSWER.answer[flag.start : flag.end] for flag in flags)
    assert flags[0].because == "X is contraindicated\nin pregnancy"
    assert (flags[1].subject, flags[1].marker, flags[1].set_id, flags[1].drug) == ("Dosage", "P2", "set", "X")


@pytest.mark.parametrize(
    ("said", "because"),
    [
        ("Take 2.5 mg", PASSAGES[1].text),
        ("2.5 mg of it", PASSAGES[1].text),
        ("It's safe.", "X is allowed"),
        (" ", PASSAGES[1].text),
        ("It's safe.", ""),
    ],
)
def test_a_statement_whose_quotations_are_not_verbatim_is_dropped(said: str, because: str) -> None:
    assert read_safety(ANSWER, PASSAGES, response(("dose", said, because))) == ([], 1)


def test_a_missing_dose_is_a_flag_without_words() -> None:
    [flag], dropped = read_safety(ANSWER, PASSAGES, response(dose_missing=True))
    assert (flag.kind, flag.text, flag.drug, flag.set_id, dropped) == ("dose_missing", "", "X", "set", 0)


def test_a_reply_of_another_shape_is_unparsable() -> None:
    with pytest.raises(Unparsable):
        read_safety(ANSWER, PASSAGES, response(("harm", "It's safe.", PASSAGES[0].text)))


def test_what_was_found_is_told_in_words() -> None:
    score = FactualityScore("a", "q", "m", "", "", "", "", "answered", flags=2, dropped_flags=1)
    lacking = FactualityScore("b", "q", "m", "", "", "", "", "answered", unscored=["flags: invalid_json: no JSON"])
    counts = safety_counts(score) + safety_counts(lacking)
    assert counts == {"flagged": 1, "flags": 2, "dropped": 1, "unchecked": 1}
    assert safety_sentence(counts, by_model=True).startswith(
        "Flags: 2; dropped, because a quotation of them is not verbatim: 1."
    )
    assert safety_sentence({}, by_model=False).startswith("Not checked: no judge model")
