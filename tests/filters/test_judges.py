"""What becomes of a question when a judge replies: kept, dropped with a fixed reason, or unscored with why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.filters.judges import judge_tasks, judges
from fdarx_core.records import JudgeVerdict, QuestionAnswer, Response, from_table, to_table
from tests.filters.judged import FACTUAL, LABEL, MULTIHOP, PASSAGES, QUESTIONS, REFUSAL, judge, slots, verdict

DOSE = "the recommended starting dose of VELORIN is 40 mg once daily"
HALF = "give half the usual starting dose"
BOTH = {
    "evidence_a": DOSE,
    "evidence_b": HALF,
    "fault": "",
    "supported_by_a": True,
    "supported_by_b": True,
    "both_needed": True,
}
NEITHER = {"supported_by_a": False, "supported_by_b": False, "both_needed": False}
SUPPORTED = {"evidence": DOSE, "fault": "", "supported": True}
RELEVANT = {"reason": "A dose.", "category": "Dosage & Administration", "relevance": "relevant"}


def outcome(stage: str, question: QuestionAnswer, reply: dict[str, Any]) -> tuple[str, str]:
    found = verdict(stage, question, orjson.dumps(reply).decode())
    return found.outcome, found.reason


def test_order_is_that_of_the_paper() -> None:
    assert [one.stage for one in judges()] == ["relevance", "support", "quality"]


def test_every_type_is_judged_at_every_stage() -> None:
    assert all(one.task(question) for one in judges() for question in QUESTIONS.values())


@pytest.mark.parametrize(
    ("stage", "question", "reply", "expected"),
    [
        ("relevance", FACTUAL, RELEVANT, ("kept", "")),
        ("relevance", REFUSAL, RELEVANT, ("kept", "")),
        ("relevance", FACTUAL, RELEVANT | {"relevance": "somewhat"}, ("dropped", "somewhat_relevant")),
        ("relevance", FACTUAL, RELEVANT | {"relevance": "irrelevant"}, ("dropped", "irrelevant")),
        ("relevance", FACTUAL, RELEVANT | {"category": "None / Irrelevant"}, ("dropped", "irrelevant_topic")),
        ("relevance", FACTUAL, RELEVANT | {"category": "Dosage"}, ("unscored", "wrong_shape")),
        ("support", FACTUAL, SUPPORTED, ("kept", "")),
        ("support", FACTUAL, SUPPORTED | {"supported": False}, ("dropped", "unsupported")),
        ("support", FACTUAL, SUPPORTED | {"supported": False, "evidence": ""}, ("dropped", "unsupported")),
        ("support", FACTUAL, SUPPORTED | {"evidence": " "}, ("unscored", "no_evidence")),
        (
            "support",
            FACTUAL,
            SUPPORTED | {"evidence": DOSE.replace("40", "80")},
            ("unscored", "evidence_not_in_passage"),
        ),
        (
            "support",
            FACTUAL,
            SUPPORTED | {"supported": False, "evidence": "80 mg"},
            ("unscored", "evidence_not_in_passage"),
        ),
        ("support", MULTIHOP, BOTH, ("kept", "")),
        ("support", MULTIHOP, BOTH | {"both_needed": False}, ("dropped", "one_section_enough")),
        (
            "support",
            MULTIHOP,
            BOTH | {"supported_by_b": False, "evidence_b": ""},
            ("dropped", "supported_by_one_section"),
        ),
        ("support", MULTIHOP, BOTH | NEITHER | {"evidence_a": "", "evidence_b": ""}, ("dropped", "unsupported")),
        ("support", MULTIHOP, BOTH | {"evidence_b": ""}, ("unscored", "no_evidence")),
        ("support", MULTIHOP, BOTH | {"evidence_b": DOSE}, ("unscored", "evidence_not_in_passage")),
        ("support", REFUSAL, {"closest_text": "", "label_answers": False}, ("kept", "")),
        ("support", REFUSAL, {"closest_text": HALF, "label_answers": False}, ("kept", "")),
        (
            "support",
            REFUSAL,
            {"closest_text": "contraindicated in patients with anuria", "label_answers": True},
            ("dropped", "answer_in_label"),
        ),
        ("support", REFUSAL, {"closest_text": "", "label_answers": True}, ("unscored", "no_evidence")),
        (
            "support",
            REFUSAL,
            {"closest_text": "contraindicated in babesiosis", "label_answers": True},
            ("unscored", "evidence_not_in_passage"),
        ),
        ("quality", FACTUAL, {"note": "It asks for a dose.", "flags": []}, ("kept", "")),
        ("quality", FACTUAL, {"note": "vague", "flags": ["low_utility", "other"]}, ("dropped", "low_utility")),
        ("quality", FACTUAL, {"note": "", "flags": ["other"]}, ("dropped", "other_fault")),
        ("quality", FACTUAL, {"note": "", "flags": ["one_sided"]}, ("unscored", "wrong_shape")),
        ("quality", MULTIHOP, {"note": "", "flags": ["one_sided"]}, ("dropped", "one_sided")),
        ("quality", REFUSAL, {"note": "", "flags": []}, ("kept", "")),
        ("quality", REFUSAL, {"note": "", "flags": ["false_premise"]}, ("dropped", "false_premise")),
        ("quality", REFUSAL, {"note": "", "flags": ["low_utility"]}, ("unscored", "wrong_shape")),
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
    assert (found.task, found.task_version, found.endpoint) == ("judge_support_multihop", 3, "small")
    assert found.response_key == "key-1"
    related = verdict("relevance", FACTUAL, orjson.dumps(RELEVANT | {"relevance": "somewhat"}).decode())
    assert (related.category, related.relevance) == ("Dosage & Administration", "somewhat")


def test_what_is_wrong_with_a_question_can_be_read() -> None:
    found = verdict("quality", FACTUAL, '{"note": "asks for anything", "flags": ["low_utility", "other", "other"]}')
    assert found.detail == "low_utility, other: asks for anything"
    dropped = verdict("support", FACTUAL, orjson.dumps(SUPPORTED | {"fault": "80 mg.", "supported": False}).decode())
    assert (dropped.detail, dropped.evidence) == ("80 mg.", [DOSE])
    assert verdict("relevance", FACTUAL, orjson.dumps(RELEVANT).decode()).detail.endswith("relevant: A dose.")
    invented = verdict("support", FACTUAL, orjson.dumps(SUPPORTED | {"evidence": "80 mg twice daily"}).decode())
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


def test_the_absence_of_an_answer_is_judged_by_the_whole_label() -> None:
    filler = [replace(PASSAGES[0], doc_chunk_index=place, text=f"Inactive text {place}. " * 40) for place in range(90)]
    label = [*filler[:30], PASSAGES[2], *filler[30:]]
    shown = judge("support").slots(REFUSAL, LABEL, label)["passages"]
    assert [one["text"] for one in shown] == [one.text for one in label]


def test_the_quality_of_a_refusal_question_is_judged_by_what_the_drug_is_for() -> None:
    use = replace(PASSAGES[0], core_code="34067-9", section_path="INDICATIONS", text="VELORIN is used for angina.")
    shown = judge("quality").slots(REFUSAL, LABEL, [*PASSAGES, use])
    assert shown["passages"] == [{"section": "INDICATIONS", "table": "", "text": "VELORIN is used for angina."}]
    assert (shown["routes"], shown["dosage_forms"]) == (["oral"], ["tablet"])


def test_the_relevance_of_a_refusal_question_is_judged_with_the_forms_and_uses_of_the_drug() -> None:
    """A strong writer called questions on the stomach relevant for eye drops, because only the name was shown."""
    use = replace(PASSAGES[0], core_code="34067-9", section_path="INDICATIONS", text="VELORIN is used for angina.")
    for question, shown_too in ((REFUSAL, True), (FACTUAL, False)):
        prompt = (
            judge("relevance")
            .by_type[question.type]
            .task.request(judge("relevance").slots(question, LABEL, [*PASSAGES, use]), endpoint="m")
        )
        asked = prompt.messages[-1]["content"]
        assert ("Forms: tablet; oral" in asked, "VELORIN is used for angina." in asked) == (shown_too, shown_too)


def test_a_near_miss_is_judged_by_what_is_asked_of_the_thing() -> None:
    near = replace(REFUSAL, entity="angina", attribute="age of onset", question="At which age does angina begin?")
    for stage in ("support", "quality"):
        task = judge(stage).by_type["refusal"].task
        texts = {
            one.attribute: task.request(slots(stage, one), endpoint="m").messages[-1]["content"]
            for one in (near, REFUSAL)
        }
        assert "the label names it" in texts["age of onset"] and "age of onset" in texts["age of onset"]
        assert "the label names it" not in texts[""]


def test_the_head_of_a_table_is_shown_to_every_judge_of_passages_and_may_be_quoted() -> None:
    head = "Table 2: Reactions in Study 7\nSkin"
    rows = [replace(one, table_header=head, core_code="34067-9") for one in PASSAGES]
    for stage in ("support", "quality"):
        for question in QUESTIONS.values():
            how = judge(stage).by_type[question.type]
            request = how.task.request(how.slots(question, LABEL, rows), endpoint="m")
            assert "Table 2: Reactions in Study 7 > Skin" in str(
                [one["content"] for one in request.messages if one["role"] != "assistant"]
            )
    one = judge("support")
    shown = one.slots(MULTIHOP, LABEL, rows)
    reply = {
        "evidence_a": "Reactions in Study 7", "evidence_b": PASSAGES[1].text, "fault": "", "supported_by_a": True,
        "supported_by_b": True, "both_needed": True,
    }  # fmt: skip
    response = Response("key-1", "judge_support_multihop", 3, "small", orjson.dumps(reply).decode())
    assert one.read(MULTIHOP, shown, response).outcome == "kept"


def test_the_baseline_judges_nothing() -> None:
    for task in judge_tasks().values():
        with pytest.raises(ValueError, match="only a language model"):
            task.by_rules({})
