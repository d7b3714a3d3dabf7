"""A build by loopback models that follow the prompts."""

from __future__ import annotations

import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.labels import Selection
from fdarx_core.records import QuestionAnswer, Reject
from tests.conftest import EXAMPLES
from tests.loopback.build import LoopbackBuild, measure
from tests.loopback.readers import relation


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> LoopbackBuild:
    amounts = GenerationConfig(passages=4, section_pairs=4, twins=4)
    return measure(str(EXAMPLES), tmp_path_factory.mktemp("loopback"), Selection(), amounts)


def test_models_that_follow_the_prompts_make_questions_of_all_types(built: LoopbackBuild) -> None:
    written = built.rows("candidates", QuestionAnswer)
    assert {one.type for one in written} == {"factual", "multihop", "refusal"}
    assert built.info["questions"]["factual"] > 10 and built.info["questions"]["refusal"] > 0
    assert all(one.entity and one.entity in one.question for one in written if one.type == "refusal")


def test_no_reply_of_a_loopback_model_is_unusable(built: LoopbackBuild) -> None:
    reasons = {one.reason for one in built.rows("rejects", Reject)}
    assert not {one for one in reasons if one.startswith("unscored_")}
    assert not reasons & {"invalid_json", "wrong_shape", "evidence_not_in_passage", "failed_request"}


def test_requests_that_were_sent_are_those_of_the_run(built: LoopbackBuild) -> None:
    assert {row["task"]: row["requests"] for row in built.info["asked"]} == dict(built.sent)
    assert built.planned["generate_factual"] == built.sent["generate_factual"] > 0
    assert sum(built.planned.values()) > sum(built.sent.values())


def test_answers_are_compared_by_their_sentences() -> None:
    one, two = "The dose is 5 mg.", "Take it with food."
    assert relation(one, one) == "same"
    assert relation(one, f"{two} {one}") == "adds"
    assert relation(f"{one} {two}", two) == "lacks"
    assert relation(one, two) == "other"
