"""What becomes of a question when a judge replies: kept, dropped with a fixed reason, or unscored with why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.filters.judges import NEAREST_PASSAGES, judge_tasks, judges, nearest
from fdarx_core.filters.tasks import JUDGE_RULES_VERSION
from fdarx_core.llm import Baseline, ask
from fdarx_core.records import JudgeVerdict, QuestionAnswer, from_table, to_table
from tests.filters.judged import FACTUAL, LABEL, MULTIHOP, PASSAGES, QUESTIONS, REFUSAL, judge, slots, verdict

DOSE = "the recommended starting dose of VELORIN is 40 mg once daily"
HALF = "give half the usual starting dose"
BOTH = {
    "supported_by_a": True,
    "supported_by_b": True,
    "both_needed": True,
    "evidence_a": DOSE,
    "evidence_b": HALF,
}
RELEVANT = {"category": "Dosage & Administration", "relevance": "relevant"}


def outcome(stage: str, question: QuestionAnswer, reply: dict[str, Any]) -> tuple[str, str]:
    found = verdict(stage, question, orjson.dumps(reply).decode())
    return found.outcome, found.reason


def test_order_is_that_of_the_paper() -> None:
    assert [one.stage for one in judges()] == ["relevance", "support", "quality"]


def test_every_type_is_judged_but_refusals_for_quality() -> None:
    unjudged = [(one.stage, kind) for one in judges() for kind, row in QUESTIONS.items() if one.task(row) is None]
    assert unjudged == [("quality", "refusal")]


@pytest.mark.parametrize(
    ("stage", "question", "reply", "expected"),
    [
        ("relevance", FACTUAL, RELEVANT, ("kept", "")),
        ("relevance", REFUSAL, RELEVANT, ("kept", "")),
        ("relevance", FACTUAL, RELEVANT | {"relevance": "somewhat"}, ("dropped", "somewhat_relevant")),
        ("relevance", FACTUAL, RELEVANT | {"relevance": "irrelevant"}, ("dropped", "irrelevant")),
        ("relevance", FACTUAL, RELEVANT | {"category": "None / Irrelevant"}, ("dropped", "irrelevant_topic")),
        ("relevance", FACTUAL, RELEVANT | {"category": "Dosage"}, ("unscored", "wrong_shape")),
        ("support", FACTUAL, {"supported": True, "evidence": DOSE}, ("kept", "")),
        ("support", FACTUAL, {"supported": False, "evidence": ""}, ("dropped", "unsupported")),
        ("support", FACTUAL, {"supported": True, "evidence": " "}, ("unscored", "no_evidence")),
        (
            "support",
            FACTUAL,
            {"supported": True, "evidence": DOSE.replace("40", "80")},
            ("unscored", "evidence_not_in_passage"),
        ),
        ("support", FACTUAL, {"supported": False, "evidence": "80 mg"}, ("unscored", "evidence_not_in_passage")),
        ("support", MULTIHOP, BOTH, ("kept", "")),
        ("support", MULTIHOP, BOTH | {"both_needed": False}, ("dropped", "one_section_enough")),
        (
            "support",
            MULTIHOP,
            BOTH | {"supported_by_b": False, "evidence_b": ""},
            ("dropped", "supported_by_one_section"),
        ),
        (
            "support",
            MULTIHOP,
            {
                "supported_by_a": False,
                "supported_by_b": False,
                "both_needed": False,
                "evidence_a": "",
                "evidence_b": "",
            },
            ("dropped", "unsupported"),
        ),
        ("support", MULTIHOP, BOTH | {"evidence_b": ""}, ("unscored", "no_evidence")),
        ("support", MULTIHOP, BOTH | {"evidence_b": DOSE}, ("unscored", "evidence_not_in_passage")),
        ("support", REFUSAL, {"absence_is_right": True, "contradicting_span": ""}, ("kept", "")),
        (
            "support",
            REFUSAL,
            {"absence_is_right": False, "contradicting_span": "contraindicated in patients with anuria"},
            ("dropped", "answer_in_label"),
        ),
        ("support", REFUSAL, {"absence_is_right": False, "contradicting_span": ""}, ("unscored", "no_evidence")),
        (
            "support",
            REFUSAL,
            {"absence_is_right": False, "contradicting_span": "contraindicated in babesiosis"},
            ("unscored", "evidence_not_in_passage"),
        ),
        ("quality", FACTUAL, {"flags": [], "note": ""}, ("kept", "")),
        ("quality", FACTUAL, {"flags": ["low_utility", "other"], "note": "vague"}, ("dropped", "low_utility")),
        ("quality", FACTUAL, {"flags": ["other"], "note": ""}, ("dropped", "other_fault")),
        ("quality", FACTUAL, {"flags": ["one_sided"], "note": ""}, ("unscored", "wrong_shape")),
        ("quality", MULTIHOP, {"flags": ["one_sided"], "note": ""}, ("dropped", "one_sided")),
    ],
)
def test_outcome(stage: str, question: QuestionAnswer, reply: dict[str, Any], expected: tuple[str, str]) -> None:
    assert outcome(stage, question, reply) == expected


@pytest.mark.parametrize("stage", ["relevance", "support", "quality"])
@pytest.mark.parametrize(
    ("text", "failed", "expected"),
    [
        ("", "", "empty_reply"),
        ("I think it is fine.", "", "invalid_json"),
        ("[]", "", "wrong_shape"),
        ("the server said no", "http_400", "failed_request"),
        ("no sentence says it", "undecided", "undecided"),
    ],
)
def test_a_judge_that_fails_is_no_verdict(stage: str, text: str, failed: str, expected: str) -> None:
    found = verdict(stage, FACTUAL, text, failed)
    assert (found.outcome, found.reason) == ("unscored", expected)
    assert found.detail or expected == "empty_reply"


def test_verdict_says_what_it_rests_on() -> None:
    found = verdict("support", MULTIHOP, orjson.dumps(BOTH).decode())
    assert found.evidence == [DOSE, HALF]
    assert (found.question_id, found.set_id, found.stage) == ("m1", "set-1", "support")
    assert (found.task, found.task_version, found.endpoint) == ("judge_support_multihop", 1, "small")
    assert found.response_key == "key-1"
    related = verdict("relevance", FACTUAL, orjson.dumps(RELEVANT | {"relevance": "somewhat"}).decode())
    assert (related.category, related.relevance) == ("Dosage & Administration", "somewhat")


def test_what_is_wrong_with_a_question_can_be_read() -> None:
    found = verdict("quality", FACTUAL, '{"flags": ["low_utility", "other", "other"], "note": "asks for anything"}')
    assert found.detail == "low_utility, other: asks for anything"
    invented = verdict("support", FACTUAL, '{"supported": true, "evidence": "80 mg twice daily"}')
    assert "80 mg twice daily" in invented.detail
    assert invented.evidence == ["80 mg twice daily"]


def test_verdicts_travel_through_arrow() -> None:
    rows = [verdict("support", MULTIHOP, orjson.dumps(BOTH).decode()), verdict("quality", FACTUAL, "no")]
    assert list(from_table(to_table(rows, JudgeVerdict), JudgeVerdict)) == rows


@given(st.text())
def test_no_reply_raises(text: str) -> None:
    for one in judges():
        for question in QUESTIONS.values():
            if one.task(question):
                assert verdict(one.stage, question, text).outcome == "unscored"


def test_relevance_is_judged_without_the_answer() -> None:
    shown = slots("relevance", FACTUAL)
    assert FACTUAL.answer not in str(shown)
    assert shown["section_codes"] == ["34068-7"]


def test_a_section_of_several_gold_passages_is_named_once() -> None:
    shown = slots("relevance", replace(FACTUAL, gold_passages=[0, 0, 2]))
    assert shown["sections"] == ["DOSAGE AND ADMINISTRATION > Recommended Dosage", "CONTRAINDICATIONS"]


def test_a_short_label_is_shown_whole() -> None:
    assert [one["text"] for one in slots("support", REFUSAL)["passages"]] == [one.text for one in PASSAGES]


def test_of_a_long_label_the_nearest_passages_are_shown_in_document_order() -> None:
    filler = [replace(PASSAGES[0], doc_chunk_index=place, text="Inactive text. " * 40) for place in range(60)]
    label = [*filler[:30], PASSAGES[2], *filler[30:]]
    shown = judge("support").slots(REFUSAL, LABEL, label)["passages"]
    assert len(shown) == NEAREST_PASSAGES
    assert PASSAGES[2].text in [one["text"] for one in shown]
    asked = replace(REFUSAL, question="Does Velorin double exposure in hepatic impairment, and in anuria?")
    assert nearest(asked, LABEL, [*filler[:20], PASSAGES[1], PASSAGES[2]])[-2:] == [PASSAGES[1], PASSAGES[2]]


def test_the_baseline_endpoint_judges() -> None:
    endpoint = Baseline(judge_tasks(), JUDGE_RULES_VERSION)
    for one in judges():
        for question in QUESTIONS.values():
            if task := one.task(question):
                shown = one.slots(question, LABEL, PASSAGES)
                request = task.request(shown, endpoint=endpoint.name, sampling=endpoint.sampling)
                found = one.read(question, shown, ask([request], endpoint, None)[0])
                assert (found.outcome, found.response_key) == ("kept", request.key)
