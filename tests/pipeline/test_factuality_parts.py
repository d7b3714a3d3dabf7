"""The parts of a scoring, which pairs are judged, and what becomes of what goes wrong; all without Ray."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fdarx_core.pipeline.factuality import ANSWERS_PER_PART, cut_answers, read_rows, write_states
from fdarx_core.pipeline.factuality_steps import (
    AnswerState,
    EngineSpec,
    FactualitySetup,
    ask_judge,
    check_safety,
    score,
)
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Address, run_steps
from fdarx_core.records import CheckedAnswer, Claim, Evidence, PairVerdict, Reject, Request, Response
from fdarx_core.storage import RunDirectory
from fdarx_core.verify.language_model import JUDGE_CLAIM

SPEC = FactualitySetup(["pubmed"], EngineSpec())
ANSWER = CheckedAnswer(
    *("a1", "q1", "How much?", "Take 5 mg.", "m"),
    drug="Zalvorin",
    references=["Take 5 mg."],
    must_have=["5 mg"],
    nice_to_have=["once"],
)
CLAIM = Claim("c1", "a1", 0, 0, 10, "Take 5 mg.", "Take 5 mg.")
EVIDENCE = [
    Evidence(f"e{rank}", "file", "Zalvorin", f"Passage {rank} says 5 mg.", section="2 Dosage") for rank in (1, 2)
]
STAND_IN = Evidence("e0", "none", "", "Take 5 mg.")


def state(answer: CheckedAnswer = ANSWER) -> AnswerState:
    return AnswerState(answer, [CLAIM], stand_in=STAND_IN, evidence={"c1": EVIDENCE})


def scored(one: AnswerState) -> AnswerState:
    one.pairs = {"exact": []}
    score(SPEC, one)
    return one


@pytest.fixture
def parts(tmp_path: Path) -> PartFiles:
    return PartFiles(RunDirectory.begin(str(tmp_path), job="score_factuality", config={}, versions={}), "0")


def read_answers(parts: PartFiles, number: int) -> list[CheckedAnswer]:
    return parts.read("answers", number, CheckedAnswer)


def test_rows_are_split_and_none_is_lost(parts: PartFiles) -> None:
    answers = [CheckedAnswer(str(n), str(n), "Why?", "So it is.", "m") for n in range(2 * ANSWERS_PER_PART + 1)]
    rows: list[CheckedAnswer | Reject] = [answers[0], Reject("r1", "predictions", "no_answer"), *answers[1:]]
    numbers = cut_answers(parts, rows)
    assert [len(read_answers(parts, number)) for number in numbers] == [ANSWERS_PER_PART, ANSWERS_PER_PART, 1]
    assert [row.id for number in numbers for row in read_answers(parts, number)] == [row.id for row in answers]
    assert [row.id for row in parts.read("rejects", 0, Reject)] == ["r1"]


def test_answers_that_decline_are_known_as_refusals(parts: PartFiles) -> None:
    said = ["I'm sorry, but I can't answer this question.", "Take 5 mg."]
    cut_answers(parts, [CheckedAnswer(text, text, "Why?", text, "m") for text in said])
    assert [row.outcome for row in read_answers(parts, 0)] == ["refused", "answered"]


def test_a_part_is_done_when_it_is_whole(parts: PartFiles) -> None:
    numbers = cut_answers(parts, [ANSWER])
    assert not parts.complete_parts("", numbers) and read_rows(parts.run, 0)["scores"] == []
    failed = scored(AnswerState(ANSWER, [CLAIM], unsearched={"c1": "failed_request: transient_server_error: 500"}))
    write_states(parts, SPEC, 0, [failed])
    assert not parts.complete_parts("", numbers) and read_rows(parts.run, 0)["claims"] == [CLAIM]
    write_states(parts, SPEC, 0, [scored(AnswerState(ANSWER, [CLAIM]))])
    assert parts.complete_parts("", numbers) == {0}


def test_all_pairs_for_the_main_engine_and_evidence_alone_for_the_other() -> None:
    rows = [row for row, _ in state().pairs_to_judge("exact", main=True)]
    assert [(row.kind, row.rank, row.evidence_id, row.number) for row in rows] == [
        ("evidence", 1, "e1", 0),
        ("evidence", 2, "e2", 0),
        ("reference", 0, "e0", 0),
        ("must_have", 0, "", 0),
        ("nice_to_have", 0, "", 0),
        ("all_statements", 0, "", 0),
    ]
    assert {row.kind for row, _ in state().pairs_to_judge("other", main=False)} == {"evidence"}


def test_what_could_not_be_searched_is_unscored_not_unsupported() -> None:
    lacking = scored(AnswerState(ANSWER, [CLAIM], unsearched={"c1": "failed_request: transient_server_error: 500"}))
    assert [row.verdict for row in lacking.verdicts] == ["unscored"]
    assert "transient_" in lacking.verdicts[0].reason
    nothing = scored(AnswerState(ANSWER, [CLAIM], evidence={"c1": []}))
    assert [(row.verdict, row.reason) for row in nothing.verdicts] == [("undecided", "no_evidence")]


def test_claims_and_flags_that_could_not_be_made_are_named() -> None:
    score = scored(AnswerState(ANSWER, no_claims="wrong_shape: no JSON", safety="rules_error")).score
    assert score is not None and score.similarity == 1 and score.fas is None
    assert {"support: claims_failed: wrong_shape: no JSON", "flags: rules_error"} <= set(score.unscored)


class Replies:
    """Answers each request with the same text."""

    def __init__(self, text: str) -> None:
        self.text, self.requests = text, list[Request]()

    def __call__(self, requests: Sequence[Request]) -> list[Response]:
        self.requests += requests
        return [Response(one.key, one.task, one.task_version, one.endpoint, self.text) for one in requests]


def asked_of(replies: Replies) -> list[PairVerdict]:
    judge = Address("m", {})
    [one] = run_steps([judge.step("m", partial(ask_judge, judge, False))], [state()], replies)
    return one.pairs["m"]


def test_a_judge_is_asked_once_for_a_claim_with_its_passages() -> None:
    said = [
        {"passage": 1, "reason": "so", "verdict": "unsupported"},
        {"passage": 2, "reason": "so", "verdict": "supported"},
    ]
    replies = Replies(str({"verdicts": said}).replace("'", '"'))
    rows = asked_of(replies)
    assert [(row.evidence_id, row.entailment) for row in rows] == [("e1", 0.0), ("e2", 1.0)]
    [request] = replies.requests
    shown = [{"heading": "Zalvorin > 2 Dosage", "text": one.text} for one in EVIDENCE]
    assert request.task == JUDGE_CLAIM.name and request.slots["passages"] == shown
    assert (request.slots["question"], request.slots["drug"]) == ("How much?", "Zalvorin")
    assert 'titles="Zalvorin > 2 Dosage"' in str(request.messages)


def test_no_request_is_made_for_references_that_were_not_given() -> None:
    one = AnswerState(CheckedAnswer("a1", "q1", "How much?", "Take 5 mg.", "m"), evidence={"c1": EVIDENCE})
    one.set_claims([CLAIM])
    assert {row.kind for row, _ in one.pairs_to_judge("m", main=True)} == {"evidence"}


def test_a_judge_that_fails_is_no_verdict() -> None:
    rows = asked_of(Replies('{"verdicts": []}'))
    assert [row.entailment for row in rows] == [None, None]
    assert all(row.reason.startswith("wrong_passages") for row in rows)


FORBIDS = Evidence("s", "labels", "Zalvorin", "Do not take more than 2 mg.", "P3", "2 Dosage", "set", "Zalvorin")
CHECKED_BY_MODEL = FactualitySetup(["pubmed"], EngineSpec("judge", "m"), safety="RUN")


def checked(reply: str, passages: Sequence[Evidence] | str = (FORBIDS,)) -> tuple[AnswerState, Replies]:
    replies, one = Replies(reply), replace(state(), safety=passages)
    one.pairs = {"m": []}
    address = Address("m", {})
    asking = address.step("safety", partial(check_safety, address))
    [one] = run_steps([asking, partial(score, CHECKED_BY_MODEL)], [one], replies)
    return one, replies


def reply_with(**statement: str) -> str:
    return json.dumps({"statements": [{"kind": "dose", **statement}], "dose_missing": False})


def test_the_judge_sees_the_passages_of_the_label_and_its_flags_count() -> None:
    one, replies = checked(reply_with(answer_quote="Take 5 mg.", label_quote="not take more than 2 mg"))
    [request] = replies.requests
    assert request.slots["passages"] == [{"heading": FORBIDS.heading, "text": FORBIDS.text}]
    assert [(flag.kind, flag.text, flag.because) for flag in one.flags] == [
        ("dose", "Take 5 mg", "not take more than 2 mg")
    ]
    assert one.score is not None and (one.score.flags, one.score.dropped_flags, one.score.fas) == (1, 0, None)


def test_a_flag_that_is_not_verbatim_is_dropped_and_counted() -> None:
    one, _ = checked(reply_with(answer_quote="Take 6 mg.", label_quote=FORBIDS.text))
    assert one.flags == [] and one.score is not None and (one.score.flags, one.score.dropped_flags) == (0, 1)


def test_a_reply_without_meaning_leaves_the_answer_unscored_for_safety() -> None:
    one, _ = checked("It is fine.")
    assert one.flags == [] and one.score is not None
    assert any(why.startswith("flags: invalid_json") for why in one.score.unscored)


def test_answers_without_passages_of_a_label_are_not_asked_about() -> None:
    assert checked("", ())[1].requests == []
    one, replies = checked("", "rules_error")
    assert replies.requests == [] and one.score is not None and "flags: rules_error" in one.score.unscored
