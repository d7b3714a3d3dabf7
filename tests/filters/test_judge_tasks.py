"""What judges show a model, and that the worked examples keep the rules they teach."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from fdarx_core.filters.judges import is_quoted, judge_tasks, judges
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
    message = judge_tasks()[name].request(CASES[name], endpoint="small").messages[-1]["content"]
    for value in CASES[name].values():
        assert all(text in message for text in texts(value))


@pytest.mark.parametrize("name", ALL)
def test_the_beginning_is_the_same_for_all(name: str) -> None:
    """Servers reuse the computation of a shared beginning, so all but the last message must not vary."""
    one, two = (
        judge_tasks()[name].request(CASES[name] | {"question": asked}, endpoint="small") for asked in ("Why?", "How?")
    )
    assert one.messages[:-1] == two.messages[:-1]
    assert one.messages[-1] != two.messages[-1]


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
def test_examples_show_more_than_one_outcome(name: str) -> None:
    replies = {orjson.dumps(example.reply) for example in judge_tasks()[name].prompt.examples}
    assert len(replies) >= 2


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_examples_quote_what_they_show(name: str, example: Any) -> None:
    shown = {
        "evidence": "passages",
        "contradicting_span": "passages",
        "evidence_a": "context_a",
        "evidence_b": "context_b",
    }
    for field, slot in shown.items():
        if quote := example.reply.get(field):
            assert is_quoted(quote, "\n".join(texts(example.slots[slot])))
    assert example.slots["drug"] in example.slots["question"]
