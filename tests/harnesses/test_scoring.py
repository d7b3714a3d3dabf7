"""Scores of single replies to exported samples, and their combination."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest

from fdarx_core.harnesses.scoring import HarnessReply, HarnessSample, combine, combine_all

SAMPLE = HarnessSample(
    id="q1",
    setting="retrieved",
    retriever="bm25",
    type="factual",
    set_id="set-1",
    drug="Zalvo",
    question="What is the dose of Zalvo?",
    target="Take 5 mg once daily.",
    gold=[3],
    equivalents=[[3, 7]],
    citable=[3, 4, 7],
)
REFUSAL = replace(SAMPLE, id="q2", type="refusal", target="Information not found!", gold=[], equivalents=[])


def parsed(text: str | None, sample: HarnessSample = SAMPLE, finish_reason: str = "stop") -> HarnessReply:
    return HarnessReply.parse(asdict(sample), text, finish_reason)


def test_a_right_answer_that_cites_an_equivalent_passage() -> None:
    reply = parsed("Take 5 mg once daily.\nCITED_PASSAGES: [PASSAGE_0007, PASSAGE_0040]")
    components = reply.components(reply.grade_by_rules())
    assert components["accuracy"] == [1.0, 1.0] and components["citation_f1"] == [0.0, 1.0]
    assert combine("citation_f1_eq", [components["citation_f1_eq"]]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("text", "finish_reason", "outcome", "reason"),
    [
        ("Take 5 mg", "length", "unparsed", "unparsed_answer"),
        ("Take 5 mg", "content_filter", "unparsed", "unparsed_answer"),
        (None, "stop", "failed", "no_answer"),
        ("", "stop", "unparsed", "unparsed_answer"),
        ("NOT_ANSWERABLE", "stop", "refused", "refused"),
    ],
)
def test_replies_that_need_no_judge(text: str | None, finish_reason: str, outcome: str, reason: str) -> None:
    reply = parsed(text, finish_reason=finish_reason)
    assert reply.request is None and reply.prediction.outcome == outcome
    assert reply.grade_by_rules().reason == reason


def test_the_grade_of_a_judge_and_what_is_none() -> None:
    reply = parsed("One tablet in the morning.")
    assert reply.request is not None and "One tablet in the morning." in reply.request.messages[-1]["content"]
    assert reply.grade_by_rules().reason == "undecided"
    assert (
        reply.grade_by_judge("j", '{"reason": "vague: no dose", "grade": "NOT_ATTEMPTED"}').outcome == "not_attempted"
    )
    for text, finish_reason in (("CORRECT", "stop"), (None, "stop"), ('{"reason": "", "grade": "CORRECT"}', "length")):
        grade = reply.grade_by_judge("j", text, finish_reason)
        assert grade.outcome == "unscored"
        assert "accuracy" not in reply.components(grade)


def test_refusals_count_where_refusal_questions_are_asked() -> None:
    answerable = [parsed("NOT_ANSWERABLE"), parsed("Take 5 mg once daily.")]
    refusals = [parsed("NOT_ANSWERABLE", REFUSAL), parsed("5 mg", REFUSAL), parsed("<think>", REFUSAL)]
    components = [one.components(one.grade_by_rules()) for one in (*answerable, *refusals)]
    metrics = combine_all(components)
    assert (metrics["refusal_precision"], metrics["refusal_recall"]) == (0.5, 0.5)
    assert metrics["hallucination_rate"] == 0.25  # one wrong answer among four with a verdict
    assert (metrics["unparsed_rate"], metrics["accuracy"]) == (0.2, 0.5)
    assert "refusal_f1" not in combine_all(components[:2])
    assert math.isnan(combine("refusal_f1", [one["refusal_f1"] for one in components[:2]]))
    oracle = parsed("NOT_ANSWERABLE", replace(SAMPLE, setting="oracle", retriever="", citable=[]))
    assert "refusal_f1" not in oracle.components(oracle.grade_by_rules())


def test_a_row_without_a_field_is_named() -> None:
    row = asdict(SAMPLE)
    del row["gold"]
    with pytest.raises(KeyError, match="gold"):
        HarnessReply.parse(row, "5 mg")
