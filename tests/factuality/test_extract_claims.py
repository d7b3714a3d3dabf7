"""What a model is asked about an answer's claims, and what its reply is read as."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.claims import EXTRACT_CLAIMS, claims_of, claims_slots, read_claims
from fdarx_core.llm import Unparsable
from fdarx_core.records import CheckedAnswer, Claim, Response

SAID = "Zalvorin isn’t for children.\nThe dose is  “5 mg” – or 2.5 mg. The dose is low."
ANSWER = CheckedAnswer("a", "q", "What is the dose?", SAID, "model", drug="Zalvorin")


def reply(*claims: tuple[str, str]) -> Response:
    value = {"claims": [{"quote": quote, "claim": claim} for quote, claim in claims]}
    return Response("k", "extract_claims", 1, "judge", json.dumps(value))


def read(*quotes: str) -> list[Claim]:
    return read_claims(ANSWER, reply(*((quote, f"claim of {quote}") for quote in quotes)))


def fault(*quotes: str) -> str:
    with pytest.raises(Unparsable) as error:
        read(*quotes)
    assert quotes[-1][:20] in error.value.detail
    return error.value.reason


def test_the_request_shows_question_answer_and_drug() -> None:
    shown = EXTRACT_CLAIMS.request(claims_slots(ANSWER), endpoint="judge").messages[-1]["content"]
    assert all(part in shown for part in (ANSWER.question, SAID, "<drug>"))
    without = CheckedAnswer("a", "q", "What?", SAID, "model")
    assert "<drug>" not in EXTRACT_CLAIMS.request(claims_slots(without), endpoint="judge").messages[-1]["content"]


def test_each_quote_becomes_a_claim_with_its_place() -> None:
    claims = read("Zalvorin isn’t for children.", "The dose is low.")
    assert [claim.text for claim in claims] == ["Zalvorin isn’t for children.", "The dose is low."]
    assert [SAID[claim.start : claim.end] for claim in claims] == [claim.text for claim in claims]
    assert [claim.resolved for claim in claims] == [
        "claim of Zalvorin isn’t for children.", "claim of The dose is low."
    ]  # fmt: skip
    assert [claim.number for claim in claims] == [0, 1]


def test_space_and_the_shapes_of_signs_do_not_count() -> None:
    claims = read("Zalvorin isn't  for children. The dose", 'is "5 mg" - or 2.5 mg.')
    assert [claim.text for claim in claims] == ["Zalvorin isn’t for children.\nThe dose", "is  “5 mg” – or 2.5 mg."]


def test_claims_stand_in_the_answers_order() -> None:
    assert [claim.text for claim in read("The dose is low.", "Zalvorin")] == ["Zalvorin", "The dose is low."]


def test_a_quote_that_stands_twice_is_taken_past_the_one_before() -> None:
    first, second = read("The dose", "The dose")
    assert first.end < second.start
    assert read("children.", "The dose is low.")[1].start == SAID.index("The dose is low")
    assert read("low.", "The dose")[0].start == SAID.index("The dose")


def test_a_quote_that_is_not_there_makes_the_reply_unparsable() -> None:
    assert fault("Zalvorin isn’t for children.", "Zalvorin is for children.") == "quote_not_found"
    assert fault("mg. the dose") == "quote_not_found"
    assert fault("5 mg.") == "quote_not_found", "within 2.5 mg it is another number"
    assert fault("child") == "quote_not_found"


def test_overlapping_quotes_make_the_reply_unparsable() -> None:
    assert fault("The dose is low.", "dose is low.") == "overlapping_quotes"
    assert fault("isn’t", "Zalvorin isn’t for") == "overlapping_quotes"


@pytest.mark.parametrize(
    "value", [{"claims": [{"quote": " ", "claim": "c"}]}, {"claims": [{"quote": "dose"}]}, {"claim": []}]
)
def test_a_reply_of_another_shape_is_unparsable(value: Any) -> None:
    with pytest.raises(Unparsable, match="wrong_shape"):
        read_claims(ANSWER, Response("k", "extract_claims", 1, "judge", json.dumps(value)))


def test_an_empty_list_is_no_claims() -> None:
    assert read() == []


LONG = """## Dosing of Zalvorin
Is it safe? The dose is 5 mg [1]. The maximum is e.g. 10 mg a day [PASSAGE_0012, PASSAGE_0013].
- Take it with food.
2. Do not crush it.
| Adults | 5 mg |
The dose is 5 mg."""


def test_without_a_model_each_sentence_item_and_row_is_a_claim() -> None:
    claims = claims_of(CheckedAnswer("a", "q", "What is the dose?", LONG, "model", drug="Zalvorin"))
    assert [claim.resolved for claim in claims] == [
        "## Dosing of Zalvorin",
        "The dose is 5 mg.",
        "The maximum is e.g. 10 mg a day.",
        "Take it with food.",
        "Do not crush it.",
        "| Adults | 5 mg |",
    ]
    assert claims[1].text == "The dose is 5 mg [1]."
    assert [claim.number for claim in claims] == list(range(6))


def test_refusals_and_failures_have_no_claims() -> None:
    for answer, outcome in (("I can't answer this question.", "answered"), ("5 mg.", "refused"), ("5 mg.", "failed")):
        assert claims_of(CheckedAnswer("a", "q", "What?", answer, "model", outcome=outcome)) == []


@given(st.text(max_size=300))
def test_claims_of_any_answer_stand_in_it_and_never_overlap(text: str) -> None:
    claims = claims_of(CheckedAnswer("a", "q", "What?", text, "model"))
    assert [claim.text for claim in claims] == [text[claim.start : claim.end] for claim in claims]
    assert all(one.end <= other.start for one, other in pairwise(claims))
