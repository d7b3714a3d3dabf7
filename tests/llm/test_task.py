"""From slots to a request, and from a response to a reply or the reason why there is none."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm import Baseline, Prompt, PromptError, Task, Unparsable, response_to
from fdarx_core.records import Response

ANSWER = Response("k", "spell_backwards", 3, "baseline", '{"text": "cba"}')


def test_request_holds_all_that_is_asked(task: Task[Any]) -> None:
    request = task.request({"word": "dose", "times": 2}, endpoint="small", sampling={"temperature": 0})
    assert (request.task, request.task_version, request.endpoint) == ("spell_backwards", 3, "small")
    assert [message["role"] for message in request.messages] == ["system", "user", "assistant", "user"]
    assert request.messages[2]["content"] == '{"text":"cba"}'
    assert request.messages[3]["content"] == "Word: dose\nSay it 2 times."
    assert request.schema["required"] == ["text"]
    assert request.schema["additionalProperties"] is False
    assert request.slots == {"word": "dose", "times": 2}


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        ({"word": "a"}, r"missing slots \['times'\]"),
        ({"word": "a", "times": 1, "mood": "b"}, r"unknown slots \['mood'\]"),
    ],
)
def test_slots_that_do_not_fit_are_named(task: Task[Any], slots: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"task spell_backwards: .*{said}"):
        task.request(slots, endpoint="small")


def test_slot_that_json_can_not_hold_is_refused(task: Task[Any]) -> None:
    with pytest.raises(ValueError, match=r"task spell_backwards: .*JSON"):
        task.request({"word": {1, 2}, "times": 1}, endpoint="small")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("response: SpellReply", "response: OtherReply", "response is 'OtherReply'"),
        ("reply: {text: cba}", "reply: {word: cba}", "an example's reply is no SpellReply: text"),
        ("slots: {word: abc, times: 1}", "slots: {word: abc}", "an example's slots don't fit"),
    ],
)
def test_prompt_that_does_not_fit_its_task(task: Task[Any], spelling: str, old: str, new: str, said: str) -> None:
    prompt = Prompt.from_yaml(spelling.replace(old, new), "prompts/spell_backwards.yaml")
    with pytest.raises(PromptError, match=said):
        Task(prompt, task.reply, task.baseline).check()


@pytest.mark.parametrize("text", ['{"text": "cba"}', ' \n{"text": " cba "}\n', '```json\n{"text": "cba"}\n```'])
def test_replies_that_can_be_read(task: Task[Any], text: str) -> None:
    assert task.parse(replace(ANSWER, text=text)).text == "cba"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"reason": "transient_timeout", "text": "no reply after 60 s"}, "failed_request"),
        ({"text": ""}, "empty_reply"),
        ({"text": " \n\t" * 700_000}, "empty_reply"),
        ({"text": '{"text": "cb', "finish_reason": "length"}, "truncated_reply"),
        ({"text": "", "finish_reason": "content_filter"}, "filtered_reply"),
        ({"text": '{"text": "cb'}, "invalid_json"),
        ({"text": "I can't help with that."}, "invalid_json"),
        ({"text": "[" * 100_000}, "invalid_json"),
        ({"text": '{"text": "\\ud800"}'}, "invalid_json"),
        ({"text": "null"}, "wrong_shape"),
        ({"text": '{"text": 7}'}, "wrong_shape"),
        ({"text": '{"text": "cba", "note": "sure"}'}, "wrong_shape"),
    ],
)
def test_replies_that_can_not_be_read(task: Task[Any], change: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unparsable) as caught:
        task.parse(replace(ANSWER, **change))
    assert caught.value.reason == reason
    assert 0 < len(caught.value.detail) < 400


@given(text=st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_parsed_or_has_a_reason(task: Task[Any], text: str) -> None:
    try:
        task.parse(replace(ANSWER, text=text))
    except Unparsable as lost:
        assert lost.reason in {"empty_reply", "invalid_json", "wrong_shape"}


def test_a_task_travels(task: Task[Any]) -> None:
    slots = {"word": "dose", "times": 1}
    here = task.request(slots, endpoint="small")
    assert pickle.loads(pickle.dumps(task)).request(slots, endpoint="small") == here


def test_baseline_answers_by_the_tasks_rules(task: Task[Any], baseline: Baseline) -> None:
    requests = [
        task.request({"word": word, "times": 2}, endpoint=baseline.name, sampling=baseline.sampling)
        for word in ("ab", "")
    ]
    good, bad = baseline.answer(requests)
    assert task.parse(good).text == "ba ba"
    assert (good.key, good.prompt_tokens, good.completion_tokens) == (requests[0].key, 0, 0)
    assert (bad.key, bad.reason, bad.text) == (requests[1].key, "baseline_error", "ValueError: no word to turn round")


def test_baseline_refuses_a_task_it_was_not_given(task: Task[Any]) -> None:
    request = task.request({"word": "ab", "times": 2}, endpoint="baseline")
    with pytest.raises(ValueError, match="spell_backwards 3"):
        Baseline({}, "r1").answer([request])


def test_a_response_carries_its_requests_identity(task: Task[Any]) -> None:
    request = task.request({"word": "ab", "times": 2}, endpoint="small")
    response = response_to(request, "")
    assert (response.key, response.task, response.task_version, response.endpoint) == (
        request.key,
        request.task,
        request.task_version,
        request.endpoint,
    )
