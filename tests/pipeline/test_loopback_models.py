"""A build by loopback models that follow the prompts.

In its second phase questions on one label are asked of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fdarx_core.generation.contexts import GenerationConfig, label_text
from fdarx_core.generation.topic_questions import product_name
from fdarx_core.labels import Selection
from fdarx_core.llm import AskingStopped
from fdarx_core.pipeline.label_state import check_accounts
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.records import QuestionAnswer, Reject, StageCount
from fdarx_core.storage import RunDirectory, read_records
from fdarx_core.storage.run_directory import read_labels
from fdarx_core.text.tokens import contains_entity
from jobs.ray_session import ray_session
from tests.conftest import EXAMPLES
from tests.llm.loopback_server import LoopbackServer
from tests.loopback.build import LoopbackBuild, LoopbackModels, begun_build, loopback_fields, measure
from tests.loopback.readers import relation

pytestmark = pytest.mark.slow

AMOUNTS = GenerationConfig(passages=4, section_pairs=4, twins=4, transfers=4)
KINDS = ("labels", "passages", "candidates", "questions", "verdicts", "rejects", "stages")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> LoopbackBuild:
    return measure(str(EXAMPLES), tmp_path_factory.mktemp("loopback"), Selection(), AMOUNTS)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(LoopbackModels(), keep_calls=False) as running:
        yield running


def parts(run: RunDirectory, kinds: Sequence[str] = KINDS) -> dict[str, bytes]:
    files = {f"{kind}/{part.name}": part.read_bytes() for kind in kinds for part in run.parts(kind)}
    return {**files, "qa.jsonl": run.file("benchmark/qa.jsonl").read_bytes()}


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


def test_transferred_questions_have_an_answerable_twin_in_the_same_words(built: LoopbackBuild) -> None:
    labels = {rows.label.set_id: rows for rows in read_labels(built.run)}
    questions = {one.id: one for one in built.rows("questions", QuestionAnswer)}
    transferred = [one for one in questions.values() if one.source == "transfer"]
    assert len(transferred) >= 5
    for one in transferred:
        twin, own = questions[one.twin], labels[one.set_id]
        other = labels[twin.set_id].label
        assert twin.type != "refusal" and twin.set_id != one.set_id
        assert one.question == twin.question.replace(product_name(other), product_name(own.label))
        assert not contains_entity(one.entity, label_text(own.label, list(own.passages.values())))
    assert len({one.twin for one in transferred}) == len(transferred)
    assert max(Counter(one.set_id for one in transferred).values()) <= AMOUNTS.transfers


def test_every_transferred_question_is_kept_or_rejected_with_a_reason(built: LoopbackBuild) -> None:
    candidates = [one for one in built.rows("candidates", QuestionAnswer) if one.source == "transfer"]
    kept = {one.id for one in built.rows("questions", QuestionAnswer)}
    rejects = {one.id: one for one in built.rows("rejects", Reject)}
    assert all((one.id in kept) != (one.id in rejects) for one in candidates)
    stages = [StageCount(**row) for row in built.info["stages"]]
    check_accounts(stages)
    by_name = {stage.stage: stage for stage in stages}
    assert by_name["generate"].rows_out == len(built.rows("candidates", QuestionAnswer))
    assert by_name["twins"].rows_out == len(kept)


def test_refusals_have_the_question_that_they_were_written_with(built: LoopbackBuild) -> None:
    candidates = built.rows("candidates", QuestionAnswer)
    answerable = {one.id: one for one in candidates if one.type != "refusal"}
    twins = [one for one in candidates if one.source == "twin"]
    assert twins and all(one.twin in answerable for one in twins)
    transferred = [one for one in candidates if one.source == "transfer"]
    assert not any(answerable[one.twin].template for one in transferred)


def test_without_transfers_no_question_is_asked_of_another_label(server: LoopbackServer, tmp_path: Path) -> None:
    fields = loopback_fields(str(EXAMPLES), server, Selection(sample=2), replace(AMOUNTS, transfers=0))
    made = begun_build(tmp_path / "run", fields)
    made.run_all()
    assert not made.run.parts("written/stages")
    assert made.run.parts("stages")


def test_a_build_that_stops_while_it_transfers_is_resumed(
    built: LoopbackBuild, server: LoopbackServer, tmp_path: Path
) -> None:
    whole = sum(built.sent.values())
    fields = loopback_fields(str(EXAMPLES), server, Selection(), AMOUNTS)
    limited = begun_build(tmp_path / "run", fields | {"clients": replace(fields["clients"], max_requests=whole - 5)})
    with pytest.raises(AskingStopped):
        limited.run_all()
    limited.run.release()
    assert limited.transferring and server.number == whole - 5
    resumed = begun_build(tmp_path / "run", fields)
    resumed.run_all()
    assert server.number == whole
    assert parts(resumed.run) == parts(built.run)


@pytest.mark.cluster
def test_both_executors_transfer_the_same(
    built: LoopbackBuild, server: LoopbackServer, own_ray_environment: None, tmp_path: Path
) -> None:
    fields = loopback_fields(str(EXAMPLES), server, Selection(), AMOUNTS)
    with ray_session(2):
        made = begun_build(tmp_path / "run", fields, RayExecutor())
        made.run_all()
    # In this process, a candidate that is judged is the same object as the question, and has its judges too.
    kinds = [kind for kind in KINDS if kind != "candidates"]
    assert parts(made.run, kinds) == parts(built.run, kinds)
    ids = [
        [one.id for part in run.parts("candidates") for one in read_records(part, QuestionAnswer)]
        for run in (made.run, built.run)
    ]
    assert ids[0] == ids[1]
