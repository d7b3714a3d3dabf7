"""The round trip: who is shown what, what follows from the answers, and which questions stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from fdarx_core.filters.round_trip import (
    COMPARE_ANSWERS,
    ROUND_TRIP_ANSWER,
    Outcome,
    RoundTripReply,
    answer_slots,
    compare_slots,
    outcome,
    read_reply,
    settings_of,
    with_passages,
)
from fdarx_core.llm import Unparsable
from fdarx_core.records import QuestionAnswer, Response
from fdarx_core.records.question_types import RoundTripSetting
from tests.filters.judged import FACTUAL, LABEL, MULTIHOP, PASSAGES, QUESTIONS, REFUSAL

NOTHING = RoundTripReply(quotes=[], passages=[], answerable=False, answer="")


def said(answer: str, *passages: int) -> RoundTripReply:
    return RoundTripReply(quotes=[], passages=list(passages), answerable=True, answer=answer)


def responded(task: Any, reply: Any, reason: str = "") -> Response:
    text = reply if isinstance(reply, str) else orjson.dumps(reply).decode()
    return Response("key-1", task.name, task.version, "small", text, reason)


def compared(**relations: str) -> Response:
    rows = [{"name": name, "difference": f"of {name}", "relation": one} for name, one in relations.items()]
    return responded(COMPARE_ANSWERS, {"comparisons": rows})


def test_a_question_is_answered_in_the_settings_of_its_type() -> None:
    assert settings_of(FACTUAL) == ("passages", "label", "closed_book")
    assert settings_of(MULTIHOP) == ("passages", "label", "closed_book", "first", "second")
    assert settings_of(REFUSAL) == ("label",)


@pytest.mark.parametrize(
    ("setting", "numbers"),
    [("passages", [0, 1]), ("label", [0, 1, 2]), ("closed_book", []), ("first", [0]), ("second", [1])],
)
def test_each_setting_shows_its_passages_and_never_the_answer(setting: RoundTripSetting, numbers: list[int]) -> None:
    slots = answer_slots(MULTIHOP, setting, LABEL, PASSAGES)
    assert [one["number"] for one in slots["passages"]] == numbers
    assert [one["text"] for one in slots["passages"]] == [PASSAGES[at].text for at in numbers]
    asked = ROUND_TRIP_ANSWER.request(slots, endpoint="small")
    shown = "\n".join(message["content"] for message in asked.messages)
    assert MULTIHOP.question in shown and MULTIHOP.answer not in shown
    assert ("No passages are shown." in shown) == (not numbers)
    assert all(f'number="{one.doc_chunk_index}"' in shown for one in PASSAGES if one.doc_chunk_index in numbers)


def test_questions_on_one_label_share_its_text() -> None:
    """Servers reuse the computation of a shared beginning."""
    one, two = (
        ROUND_TRIP_ANSWER.request(answer_slots(question, "label", LABEL, PASSAGES), endpoint="small").messages
        for question in (FACTUAL, REFUSAL)
    )
    assert one[:-1] == two[:-1] and one[-1] != two[-1]


def test_a_quotation_must_be_in_one_of_the_passages_shown() -> None:
    slots = answer_slots(MULTIHOP, "first", LABEL, PASSAGES)
    reply = {"quotes": ["recommended starting dose"], "passages": [0], "answerable": True, "answer": "40 mg"}
    good = read_reply(slots, responded(ROUND_TRIP_ANSWER, reply))
    assert isinstance(good, RoundTripReply) and good.answer == "40 mg"
    for quote in ("a starting dose of 80 mg", PASSAGES[1].text, f"{PASSAGES[0].text[-20:]} {PASSAGES[1].text[:20]}"):
        bad = read_reply(slots, responded(ROUND_TRIP_ANSWER, {**reply, "quotes": [quote]}))
        assert isinstance(bad, Unparsable) and bad.reason == "evidence_not_in_passage"


@pytest.mark.parametrize(
    ("text", "failed", "expected"),
    [
        ("", "", "empty_reply"),
        ("yes", "", "invalid_json"),
        ("[]", "", "wrong_shape"),
        ("", "http_400", "failed_request"),
    ],
)
def test_a_reply_that_cannot_be_read_says_why(text: str, failed: str, expected: str) -> None:
    slots = answer_slots(FACTUAL, "passages", LABEL, PASSAGES)
    found = read_reply(slots, responded(ROUND_TRIP_ANSWER, text, failed))
    assert isinstance(found, Unparsable) and found.reason == expected


GOOD: dict[RoundTripSetting, RoundTripReply | Unparsable] = {
    "passages": said("40 mg", 0),
    "label": said("40 mg", 0),
    "closed_book": NOTHING,
}
HOPS: dict[RoundTripSetting, RoundTripReply | Unparsable] = {
    **GOOD,
    "closed_book": said("20 mg"),
    "first": said("40 mg", 0),
    "second": said("half", 1),
}
SAME = {"passages": "same", "label": "same"}
ALONE = {"closed_book": "other", "first": "lacks", "second": "lacks"}


def test_a_question_that_is_answered_alike_stays() -> None:
    assert outcome(FACTUAL, GOOD, compared(**SAME)) == Outcome("kept", more_passages=(0,))
    assert outcome(MULTIHOP, HOPS, compared(**SAME, **ALONE)).outcome == "kept"


@pytest.mark.parametrize(
    ("setting", "relation", "reason"),
    [
        ("passages", "adds", "incomplete_gold"),
        ("passages", "lacks", "unsupported"),
        ("passages", "contradicts", "contradicted"),
        ("passages", "other", "ambiguous"),
        ("label", "adds", "incomplete_gold"),
        ("label", "contradicts", "contradicted"),
        ("label", "other", "answer_elsewhere"),
        ("label", "lacks", ""),
        ("closed_book", "same", ""),
        ("closed_book", "adds", ""),
        ("closed_book", "lacks", ""),
        ("closed_book", "contradicts", ""),
        ("first", "same", "one_hop_enough"),
        ("first", "adds", "one_hop_enough"),
        ("first", "contradicts", ""),
        ("second", "same", "one_hop_enough"),
        ("second", "adds", "one_hop_enough"),
        ("second", "other", ""),
    ],
)
def test_each_difference_has_its_reason(setting: RoundTripSetting, relation: str, reason: str) -> None:
    found = outcome(MULTIHOP, HOPS, compared(**{**SAME, **ALONE, setting: relation}))
    assert (found.outcome, found.reason) == ("dropped" if reason else "kept", reason)
    assert found.detail == (f"{setting}: of {setting}" if reason else "")


@pytest.mark.parametrize(
    ("relation", "known"), [("same", True), ("adds", True), ("lacks", False), ("contradicts", False), ("other", False)]
)
def test_the_gold_answer_from_nothing_is_a_tag_and_no_reason_to_drop(relation: str, known: bool) -> None:
    found = outcome(MULTIHOP, HOPS, compared(**{**SAME, **ALONE, "closed_book": relation}))
    assert (found.outcome, found.known) == ("kept", known)
    assert not outcome(FACTUAL, GOOD, compared(**SAME)).known


def test_from_nothing_a_reader_answers_from_memory_and_else_from_all_that_is_shown() -> None:
    asked: dict[RoundTripSetting, str] = {}
    settings: tuple[RoundTripSetting, ...] = ("label", "closed_book")
    for setting in settings:
        slots = answer_slots(FACTUAL, setting, LABEL, PASSAGES)
        asked[setting] = str(ROUND_TRIP_ANSWER.request(slots, endpoint="m").messages)
    assert "from memory" in asked["closed_book"] and "copy, word for word" not in asked["closed_book"]
    assert "from memory" not in asked["label"] and "from every passage that answers it" in asked["label"]


def test_the_head_of_a_table_is_shown_and_may_be_quoted() -> None:
    row = replace(PASSAGES[0], text="Rash | 4%", table_header="Table 2: Reactions in Study 7\nSkin")
    slots = answer_slots(FACTUAL, "passages", LABEL, [row])
    assert slots["passages"][0]["table"] == "Table 2: Reactions in Study 7 > Skin"
    reply = {"quotes": ["Reactions in Study 7", "Rash | 4%"], "passages": [0], "answerable": True, "answer": "4%"}
    assert isinstance(read_reply(slots, responded(ROUND_TRIP_ANSWER, reply)), RoundTripReply)


def test_a_question_that_nobody_can_answer_is_dropped() -> None:
    for setting in ("passages", "label"):
        found = outcome(FACTUAL, {**GOOD, setting: NOTHING}, compared(**SAME))
        assert (found.outcome, found.reason, found.detail.split(":")[0]) == ("dropped", "unanswerable", setting)


def test_a_refusal_question_stays_unless_the_label_answers_it() -> None:
    assert outcome(REFUSAL, {"label": NOTHING}, None) == Outcome("kept")
    assert outcome(REFUSAL, {"label": said("Yes.", 2)}, None) == Outcome("dropped", "answer_in_label", "Yes.")


@pytest.mark.parametrize("question", [FACTUAL, REFUSAL], ids=lambda one: one.type)
def test_a_reply_that_cannot_be_read_leaves_the_question_unscored(question: QuestionAnswer) -> None:
    found = outcome(question, {**GOOD, "label": Unparsable("wrong_shape", "items")}, compared(**SAME))
    assert (found.outcome, found.reason, found.detail) == ("unscored", "wrong_shape", "label: items")


def test_an_unusable_reply_does_not_clear_a_question_that_another_reply_drops() -> None:
    broken: dict[RoundTripSetting, RoundTripReply | Unparsable] = {**GOOD, "label": Unparsable("wrong_shape", "items")}
    found = outcome(FACTUAL, broken, compared(passages="contradicts"))
    assert (found.outcome, found.reason) == ("dropped", "contradicted")


def test_a_comparison_that_cannot_be_read_or_misses_an_answer_leaves_the_question_unscored() -> None:
    for text, failed, reason in (("?", "", "invalid_json"), ("", "http_400", "failed_request")):
        found = outcome(FACTUAL, GOOD, responded(COMPARE_ANSWERS, text, failed))
        assert (found.outcome, found.reason) == ("unscored", reason)
    found = outcome(FACTUAL, GOOD, compared(passages="same"))
    assert (found.outcome, found.reason) == ("unscored", "wrong_shape")
    assert found.detail == "the answer from label was not compared"


def test_passages_with_the_same_answer_become_gold_of_a_factual_question() -> None:
    found = outcome(FACTUAL, {**GOOD, "label": said("40 mg", 0, 2)}, compared(**SAME))
    more = with_passages(
        replace(FACTUAL, gold_codes=["34068-7"], gold_has_answer=[True]), found.more_passages, PASSAGES
    )
    assert (more.gold_passages, more.gold_codes, more.gold_has_answer) == ([0, 2], ["34068-7", "34070-3"], [True, True])
    hops = outcome(MULTIHOP, {**HOPS, "label": said("40 mg", 0, 1, 2)}, compared(**SAME, **ALONE))
    assert hops.more_passages == ()


def test_gold_passages_keep_what_is_known_of_them_and_numbers_of_no_passage_are_left_out() -> None:
    known = replace(FACTUAL, gold_passages=[1], gold_codes=["43684-0"], gold_has_answer=[False])
    more = with_passages(known, (2, 1, 99, -1), PASSAGES)
    assert (more.gold_passages, more.gold_has_answer) == ([1, 2], [False, True])
    assert with_passages(known, (1, 3, 99), PASSAGES) is known


def test_answers_that_exist_are_compared() -> None:
    slots = compare_slots(FACTUAL, {"passages": said("40 mg"), "label": said("80 mg"), "closed_book": NOTHING})
    assert slots is not None
    assert slots["answers"] == [{"name": "passages", "text": "40 mg"}, {"name": "label", "text": "80 mg"}]
    assert compare_slots(FACTUAL, {"passages": NOTHING, "label": NOTHING}) is None
    shown = COMPARE_ANSWERS.request(slots, endpoint="small").messages[-1]["content"]
    assert all(text in shown for text in (FACTUAL.question, FACTUAL.answer, "40 mg", "80 mg", '<answer name="label">'))


@pytest.mark.parametrize("task", [ROUND_TRIP_ANSWER, COMPARE_ANSWERS], ids=lambda task: task.name)
def test_schema_takes_no_other_fields_and_needs_all(task: Any) -> None:
    """What servers ask of a strict response_format. What a verdict rests on comes before it."""
    slots = (
        answer_slots(FACTUAL, "passages", LABEL, PASSAGES)
        if task is ROUND_TRIP_ANSWER
        else compare_slots(FACTUAL, {"passages": said("40 mg")})
    )
    assert slots is not None
    schema = task.request(slots, endpoint="small").schema
    for part in [schema, *schema.get("$defs", {}).values()]:
        assert part["additionalProperties"] is False
        assert sorted(part["required"]) == sorted(part["properties"])
    fields = [list(part["properties"]) for part in [schema, *schema.get("$defs", {}).values()]]
    assert ["quotes", "passages", "answerable", "answer"] in fields or ["name", "difference", "relation"] in fields


def test_every_type_of_question_is_known() -> None:
    assert all(settings_of(one) for one in QUESTIONS.values())
