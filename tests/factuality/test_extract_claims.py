"""What a model is asked about an answer's claims, and what its reply is read as."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.baseline.claims import claims_of
from fdarx_core.factuality.claims import EXTRACT_CLAIMS, claims_asked, read_claims
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
    shown = EXTRACT_CLAIMS.request(claims_asked(ANSWER), endpoint="judge").messages[-1]["content"]
    assert all(part in shown for part in (ANSWER.question, SAID, "<drug>"))
    without = CheckedAnswer("a", "q", "What?", SAID, "model")
    assert "<drug>" not in EXTRACT_CLAIMS.request(claims_asked(without), endpoint="judge").messages[-1]["content"]


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


def test_the_rules_reply_is_read_as_the_rules_claims() -> None:
    reply = EXTRACT_CLAIMS.by_rules(claims_asked(ANSWER))
    assert read_claims(ANSWER, Response("k", "extract_claims", 1, "baseline", reply)) == claims_of(ANSWER)


@given(st.text(max_size=200))
def test_the_rules_reply_is_read_whatever_the_answer_holds(text: str) -> None:
    answer = CheckedAnswer("a", "q", "What?", text, "model")
    response = Response("k", "extract_claims", 1, "baseline", EXTRACT_CLAIMS.by_rules(claims_asked(answer)))
    read = read_claims(answer, response)
    assert [claim.resolved for claim in read] == [claim.resolved for claim in claims_of(answer)]
