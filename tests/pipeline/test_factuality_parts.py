"""The parts of a scoring, which pairs are judged, and what becomes of what goes wrong; all without Ray."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fdarx_core.factuality.safety import SafetyCandidate, SafetyFindings
from fdarx_core.pipeline.factuality import ANSWERS_PER_PART, cut_answers, read_rows, write_states
from fdarx_core.pipeline.factuality_state import AnswerState
from fdarx_core.pipeline.factuality_steps import EngineSpec, FactualitySpec, ask_judge, score
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Address, run_steps
from fdarx_core.records import CheckedAnswer, Claim, Evidence, PairVerdict, Reject, Request, Response, SafetyFlag
from fdarx_core.storage import RunDirectory
from fdarx_core.verify.language_model import JUDGE_CLAIM

SPEC = FactualitySpec("pubmed", EngineSpec())
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
    assert not parts.marked("", numbers) and read_rows(parts.run, 0)["scores"] == []
    failed = scored(AnswerState(ANSWER, [CLAIM], unsearched={"c1": "failed_request: transient_server_error: 500"}))
    write_states(parts, SPEC, 0, [failed])
    assert not parts.marked("", numbers) and read_rows(parts.run, 0)["claims"] == [CLAIM]
    write_states(parts, SPEC, 0, [scored(AnswerState(ANSWER, [CLAIM]))])
    assert parts.marked("", numbers) == {0}


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
    [one] = run_steps([ask_judge(Address("m", {}), main=False)], [state()], replies)
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


STATEMENT = Evidence("s", "labels", "Zalvorin", "Do not take more than 2 mg.", "P3", "2 Dosage", "set", "Zalvorin")
DOUBTFUL = SafetyFlag("a1", "dose_unsupported", 0, 10, "Take 5 mg.", "Zalvorin", "5 mg", STATEMENT.text, "set")
TO_REVIEW = SafetyCandidate(replace(DOUBTFUL, status="to_review"), STATEMENT)
JUDGED_BY_MODEL = FactualitySpec("pubmed", EngineSpec("judge", "m"), safety="RUN")


def with_candidate(claims: list[Claim]) -> AnswerState:
    one = AnswerState(replace(ANSWER, must_have=[], nice_to_have=[], references=[]), evidence={"c1": EVIDENCE})
    one.claims, one.safety = claims, SafetyFindings([TO_REVIEW])
    return one


def verdicts(*said: str) -> Replies:
    rows = [{"passage": at, "reason": "so", "verdict": verdict} for at, verdict in enumerate(said, 1)]
    return Replies(json.dumps({"verdicts": rows}))


def flags_by_model(state: AnswerState, replies: Replies) -> list[tuple[str, str]]:
    [one] = run_steps([ask_judge(Address("m", {}), main=True), partial(score, JUDGED_BY_MODEL)], [state], replies)
    return [(flag.kind, flag.status) for flag in one.flags]


def test_what_the_label_says_of_a_candidate_is_shown_with_the_evidence_of_its_claim() -> None:
    replies = verdicts("unsupported", "unsupported", "contradicted")
    assert flags_by_model(with_candidate([CLAIM]), replies) == [("dose_unsupported", "flagged")]
    [request] = replies.requests
    assert [one["text"] for one in request.slots["passages"]] == [*(one.text for one in EVIDENCE), STATEMENT.text]
    assert flags_by_model(with_candidate([CLAIM]), verdicts("supported", "supported", "unsupported")) == []


def test_what_the_evidence_has_already_is_not_shown_again() -> None:
    found = Evidence("e3", "labels", "Zalvorin", f"{STATEMENT.text} Store it.", "P3", "2 Dosage", "set", "Zalvorin")
    one = with_candidate([CLAIM])
    one.evidence = {"c1": [found]}
    replies = verdicts("contradicted")
    assert flags_by_model(one, replies) == [("dose_unsupported", "flagged")]
    assert [shown["text"] for shown in replies.requests[0].slots["passages"]] == [found.text]


def test_the_contraindications_of_the_label_are_shown_with_each_claim() -> None:
    forbids = Evidence("k", "labels", "Zalvorin", "Not with gout.", "P4", "4 Contraindications", "set", "Zalvorin")
    one = with_candidate([CLAIM])
    one.safety = SafetyFindings((), [forbids])
    one.answer = replace(one.answer, set_id="set")
    replies = verdicts("unsupported", "supported", "contradicted")
    assert flags_by_model(one, replies) == [("contradicted_by_label", "flagged")]
    assert replies.requests[0].slots["passages"][-1] == {"heading": forbids.heading, "text": forbids.text}


def test_a_candidate_that_no_claim_covers_is_judged_with_its_question() -> None:
    replies = verdicts("contradicted")
    assert flags_by_model(with_candidate([]), replies) == [("dose_unsupported", "flagged")]
    [request] = replies.requests
    assert request.slots["claim"] == "How much? Take 5 mg."
    assert flags_by_model(with_candidate([]), Replies("no JSON")) == [("dose_unsupported", "to_review")]


def test_without_a_model_all_candidates_are_to_be_reviewed() -> None:
    one = with_candidate([CLAIM])
    one.pairs = {"exact": []}
    score(replace(SPEC, safety="RUN"), one)
    assert [flag.status for flag in one.flags] == ["to_review"] and one.score is not None and one.score.flags == 0
