"""What judges show a model, and that the worked examples keep the rules they teach."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from fdarx_core.filters.judges import judge_tasks, judges
from fdarx_core.filters.quotations import is_quoted
from fdarx_core.labels.loinc import TOPICS
from fdarx_core.records import NO_ANSWER
from tests.filters.judged import LABEL, PASSAGES, QUESTIONS

ALL = sorted(judge_tasks())
CASES: dict[str, dict[str, Any]] = {
    task.name: one.slots(question, LABEL, PASSAGES)
    for one in judges()
    for question in QUESTIONS.values()
    if (task := one.task(question))
}
EXAMPLES = [(name, example) for name in ALL for example in judge_tasks()[name].prompt.examples]


def texts(value: Any) -> list[str]:
    """All strings in a slot's value."""
    if isinstance(value, str):
        return [value]
    return [text for part in (value.values() if isinstance(value, dict) else value) for text in texts(part)]


def test_every_task_serves_a_judge() -> None:
    assert sorted(CASES) == ALL


@pytest.mark.parametrize("name", ALL)
def test_the_model_sees_every_slot(name: str) -> None:
    messages = judge_tasks()[name].request(CASES[name], endpoint="small").messages
    shown = "\n".join(message["content"] for message in (messages[0], messages[-1]))
    for value in CASES[name].values():
        assert all(text in shown for text in texts(value))


@pytest.mark.parametrize("name", ALL)
def test_the_beginning_is_the_same_for_all(name: str) -> None:
    """Servers reuse the computation of a shared beginning, so all but the last message must not vary."""
    one, two = (
        judge_tasks()[name].request(CASES[name] | {"question": asked}, endpoint="small") for asked in ("Why?", "How?")
    )
    assert one.messages[:-1] == two.messages[:-1]
    assert one.messages[-1] != two.messages[-1]


def test_a_whole_label_stands_before_the_question_and_after_the_examples() -> None:
    task = judge_tasks()["judge_support_refusal"]
    system, user = task.request(CASES[task.name], endpoint="small").messages
    places = [system["content"].index(text) for text in (PASSAGES[0].text, PASSAGES[-1].text)]
    examples = [system["content"].index(orjson.dumps(one.reply).decode()) for one in task.prompt.examples]
    assert examples + places == sorted(examples + places)
    assert not any(one.text in user["content"] for one in PASSAGES)


VERDICTS = {
    "judge_relevance": ("reason", ["category", "relevance"]),
    "judge_support_factual": ("evidence", ["supported"]),
    "judge_support_multihop": ("evidence_a", ["supported_by_a", "supported_by_b", "both_needed"]),
    "judge_support_refusal": ("closest_text", ["label_answers"]),
    "judge_quality_factual": ("note", ["flags"]),
    "judge_quality_multihop": ("note", ["flags"]),
    "judge_quality_refusal": ("note", ["flags"]),
}
"""The first field of each reply, and the fields of the verdict, which come last."""


@pytest.mark.parametrize("name", ALL)
def test_judges_quote_before_they_judge(name: str) -> None:
    first, verdict = VERDICTS[name]
    fields = list(judge_tasks()[name].request(CASES[name], endpoint="small").schema["properties"])
    assert (fields[0], fields[-len(verdict) :]) == (first, verdict)
    assert all(list(example.reply) == fields for example in judge_tasks()[name].prompt.examples)


@pytest.mark.parametrize("name", ALL)
def test_schema_takes_no_other_fields_and_needs_all(name: str) -> None:
    """What servers ask of a strict response_format."""
    schema = judge_tasks()[name].request(CASES[name], endpoint="small").schema
    for part in [schema, *schema.get("$defs", {}).values()]:
        assert part["additionalProperties"] is False
        assert sorted(part["required"]) == sorted(part["properties"])


@pytest.mark.parametrize("name", ALL)
def test_no_judge_is_told_the_refusal_marker(name: str) -> None:
    messages = judge_tasks()[name].request(CASES[name], endpoint="small").messages
    assert not any(NO_ANSWER in message["content"] for message in messages)


def test_relevance_offers_the_nine_topics_and_none() -> None:
    task = judge_tasks()["judge_relevance"]
    request = task.request(CASES["judge_relevance"], endpoint="small")
    assert set(request.schema["properties"]["category"]["enum"]) == {*TOPICS, "None / Irrelevant"}
    assert all(topic in request.messages[0]["content"] for topic in TOPICS)


@pytest.mark.parametrize("name", [name for name in ALL if "quality" in name])
def test_every_flag_is_explained(name: str) -> None:
    request = judge_tasks()[name].request(CASES[name], endpoint="small")
    flags = request.schema["properties"]["flags"]["items"]["enum"]
    assert len(flags) == 5
    assert all(f'"{flag}"' in request.messages[0]["content"] for flag in flags)


@pytest.mark.parametrize("name", ALL)
def test_examples_are_questions_that_are_kept_and_at_last_one_that_is_dropped(name: str) -> None:
    [how] = {how.task.name: how for one in judges() for how in one.by_type.values() if how.task.name == name}.values()
    replies = [how.task.reply.model_validate(example.reply) for example in how.task.prompt.examples]
    assert [not how.decide(reply).drop for reply in replies] == [*[True] * (len(replies) - 1), False]
    assert len(replies) >= 3


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_examples_quote_what_they_show(name: str, example: Any) -> None:
    shown = {"evidence": "passages", "closest_text": "passages", "evidence_a": "context_a", "evidence_b": "context_b"}
    for field, slot in shown.items():
        if quote := example.reply.get(field):
            assert is_quoted(quote, "\n".join(texts(example.slots[slot])))
    pronoun = "low_utility" in example.reply.get("flags", [])
    assert (example.slots["drug"] in example.slots["question"]) is not pronoun
