"""Candidate questions from the replies to a context: what they are made of, and how twins are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from fdarx_core.generation.candidates import parse_candidates
from fdarx_core.generation.contexts import Context, GenerationConfig, make_contexts
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.writing import writing_tasks
from fdarx_core.labels import Identity, Source
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.pipeline.build_steps import baseline, generate
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.steps import Address
from fdarx_core.records import NO_ANSWER, QuestionAnswer, Reject, Response
from tests.generation.test_contexts import DIGOXIN, LABEL, PARTNER, PASSAGES

OTHER = TopicPair(Topic("risk", "pancreatitis"), None, "What does the label of {drug} say about {term}?")


def context_of(pair: TopicPair) -> Context:
    [context] = make_contexts(LABEL, PASSAGES, GenerationConfig(), [pair])
    return context


def replied(context: Context, text: str) -> Response:
    task = writing_tasks()[context.task]
    return Response("key-1", task.name, task.version, "small", text)


def parsed(context: Context, reply: Any = None) -> list[QuestionAnswer] | Reject:
    """By default, of the reply of the baseline."""
    text = writing_tasks()[context.task].by_rules(context.slots) if reply is None else orjson.dumps(reply).decode()
    return parse_candidates(context, replied(context, text), LABEL, PASSAGES)


def questions(context: Context, reply: Any = None) -> list[QuestionAnswer]:
    found = parsed(context, reply)
    assert isinstance(found, list)
    return found


def test_a_question_has_what_it_was_made_from() -> None:
    context = context_of(PARTNER)
    one, _ = questions(context)
    assert (one.type, one.source, one.answer_kind, one.difficulty) == ("factual", "section", "factual", "several")
    assert (one.answer, one.gold_passages, one.gold_codes, one.gold_has_answer) == (DIGOXIN, [0], ["34073-7"], [True])
    assert " ".join(one.evidence) == DIGOXIN
    assert (one.set_id, one.drug_name, one.category) == ("set-1", "Velorin", "Drug Interactions")
    assert (one.task, one.task_version, one.endpoint, one.response_key) == (
        context.task,
        writing_tasks()[context.task].version,
        "small",
        "key-1",
    )


def test_a_twin_is_a_refusal_question_that_names_its_question() -> None:
    one, twin = questions(context_of(PARTNER))
    assert (twin.type, twin.source, twin.answer_kind, twin.answer) == ("refusal", "twin", "refusal", NO_ANSWER)
    assert twin.twin == one.id != twin.id and one.twin == ""
    assert twin.entity == "lithium" and "lithium" in twin.question
    assert (twin.gold_passages, twin.evidence) == ([], [])
    assert (twin.category, twin.difficulty, twin.template) == (one.category, one.difficulty, one.template)


def test_a_template_question_has_its_wording_and_a_question_of_a_model_has_none() -> None:
    context = context_of(PARTNER)
    text = writing_tasks()[context.task].by_rules(context.slots)
    for endpoint, wording in (("baseline", context.template), ("small", "")):
        found = parse_candidates(context, replace(replied(context, text), endpoint=endpoint), LABEL, PASSAGES)
        assert isinstance(found, list) and [one.template for one in found] == [wording] * 2
    assert context.template


def test_a_twin_whose_entity_the_label_names_is_a_near_miss() -> None:
    context = context_of(PARTNER)
    context.twin_category = "Adverse Events"
    context.slots["written"][0]["twin"] |= {"kind": "near_miss", "attribute": "overdose"}
    one, twin = questions(context)
    assert (one.source, twin.source, twin.attribute) == ("section", "twin", "overdose")
    assert twin.category == "Adverse Events"


def test_ids_follow_from_label_question_and_answer() -> None:
    ids = [one.id for one in (*questions(context_of(PARTNER)), *questions(context_of(OTHER)))]
    assert len(set(ids)) == len(ids) == 3
    again = [one.id for one in (*questions(context_of(PARTNER)), *questions(context_of(OTHER)))]
    assert again == ids
    item = context_of(PARTNER).slots["written"][0]
    other, _ = questions(context_of(PARTNER), {"items": [{**item, "answer": "Monitor it."}]})
    assert other.id not in ids


def test_a_reply_without_questions_is_a_reject_that_says_so() -> None:
    context = context_of(PARTNER)
    nothing = parsed(context, {"items": []})
    assert isinstance(nothing, Reject)
    assert (nothing.id, nothing.stage, nothing.reason) == (context.id, "generate", "nothing_to_ask")
    assert "PASSAGE_0000" in nothing.detail
    item = context.slots["written"][0]
    for reply, reason in (("no", "wrong_shape"), ({"items": [{**item, "difficulty": "hard"}]}, "wrong_shape")):
        found = parsed(context, reply)
        assert isinstance(found, Reject) and found.reason == reason
    unread = parse_candidates(context, replied(context, "{"), LABEL, PASSAGES)
    assert isinstance(unread, Reject) and unread.reason == "invalid_json"


def state() -> LabelState:
    contexts = make_contexts(LABEL, PASSAGES, GenerationConfig(passages=2), [PARTNER, OTHER], by_model=True)
    identity = Identity("set-1", 1, "", "", "", "", "", [], "", "", Source("label.xml"))
    return LabelState(identity, label=LABEL, passages=list(PASSAGES), contexts=contexts)


def test_the_rules_are_asked_with_what_they_wrote_and_a_model_without() -> None:
    one = state()
    by_rules = next(generate(Address.of("baseline", {}, baseline()), writing_tasks(), False, one))
    assert [bool(request.slots["written"]) for request in by_rules[:2]] == [True, True]
    model = ModelConfig(name="m", model="m", base_url="http://localhost/v1")
    asked = next(generate(Address("m", model.request_parameters), writing_tasks(), False, one))
    assert len(asked) == len(one.contexts) > 2
    assert all(request.slots["written"] == [] for request in asked)
    assert all(context.slots["written"] for context in one.contexts[:2])  # they are kept for the rules


def test_a_refusal_without_an_answerable_question_in_its_words_stands_alone() -> None:
    alone = TopicPair(None, Topic("partner", "lithium"), "What does the label of {drug} say about use with {term}?")
    [one] = questions(context_of(alone))
    assert (one.type, one.twin, one.entity, one.answer) == ("refusal", "", "lithium", NO_ANSWER)
    assert (one.category, one.gold_passages, one.difficulty) == ("Drug Interactions", [], "direct")
    assert make_contexts(LABEL, PASSAGES, GenerationConfig(), [alone], by_model=True)[0].refusal is None
