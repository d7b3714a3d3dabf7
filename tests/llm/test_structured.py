"""Replies are held to their schema as well as the server can, and repaired once where it can't."""

from __future__ import annotations

from typing import Any

import pytest

from fdarx_core.llm import Task
from tests.llm.conftest import ask_all, model
from tests.llm.loopback_server import Call, Fault, LoopbackServer

FINE = '{"text": "cba"}'
LADDER = ["json_schema", "json_object", None]


def asked_for(call: Call) -> str | None:
    return (call.body.get("response_format") or {}).get("type")


@pytest.mark.parametrize("understood", [0, 1, 2])
def test_what_the_server_refuses_is_asked_for_once(understood: int, task: Task[Any], server: LoopbackServer) -> None:
    allowed = LADDER[understood]
    refusal = Fault(status=400, error={"message": "response_format of this type is not supported"})
    server.faults = lambda call: None if asked_for(call) == allowed else refusal
    responses = ask_all(task, model(server, max_in_flight=1), "a", "b", "c")
    assert [one.text for one in responses] == [FINE] * 3
    assert [asked_for(call) for call in server.calls] == [*LADDER[:understood], allowed, allowed, allowed]
    assert sum(one.attempts for one in responses) == 3 + understood


def test_many_at_once_learn_together(task: Task[Any], server: LoopbackServer) -> None:
    server.latency = 0.02
    server.faults = lambda call: Fault(status=400, error="unknown field response_format") if asked_for(call) else None
    responses = ask_all(task, model(server), *map(str, range(20)))
    assert [(one.text, one.reason) for one in responses] == [(FINE, "")] * 20
    assert max(one.attempts for one in responses) == 3


def test_a_mode_that_was_chosen_is_kept(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=400, error="unknown field response_format") if asked_for(call) else None
    [response] = ask_all(task, model(server, structured="json_schema"), "a")
    assert response.reason == "refused_request"
    [response] = ask_all(task, model(server, structured="text"), "a")
    assert (response.text, response.attempts) == (FINE, 1)


def test_the_schema_is_sent(task: Task[Any], server: LoopbackServer) -> None:
    ask_all(task, model(server, sampling={"temperature": 0, "seed": 7}, max_tokens=99), "a")
    body = server.calls[0].body
    assert body["response_format"]["json_schema"]["schema"] == task.reply.model_json_schema()
    sent = {name: value for name, value in body.items() if name not in ("messages", "response_format")}
    assert sent == {"model": "tiny", "max_tokens": 99, "temperature": 0, "seed": 7}


def test_the_newer_name_of_max_tokens(task: Task[Any], server: LoopbackServer) -> None:
    refusal = Fault(status=400, error={"message": "Unsupported parameter: use 'max_completion_tokens' instead."})
    server.faults = lambda call: refusal if "max_tokens" in call.body else None
    responses = ask_all(task, model(server, max_in_flight=1, max_tokens=99), "a", "b")
    assert [(one.text, one.attempts) for one in responses] == [(FINE, 2), (FINE, 1)]
    assert server.calls[-1].body["max_completion_tokens"] == 99


@pytest.mark.parametrize(
    "first",
    ['The word is {"text": "cba"}', '{"txt": "cba"}', '{"text": ["cba"]}', "[]", ""],
    ids=["prose", "other field", "other type", "list", "empty"],
)
def test_one_repair(first: str, task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(text=first) if len(call.body["messages"]) == 4 else None
    [response] = ask_all(task, model(server, structured="text"), "abc")
    assert (response.text, response.reason, response.attempts) == (FINE, "", 2)
    said, asked = server.calls[1].body["messages"][-2:]
    assert said["content"] == (first or "(nothing)")
    assert '"required":["text"]' in asked["content"]
    once = len(str(server.calls[0].body["messages"])) // 4
    assert response.prompt_tokens > 1.5 * once


def test_what_one_repair_does_not_mend_is_kept_as_it_is(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(text=f"no {call.number}")
    [response] = ask_all(task, model(server), "abc")
    assert (response.text, response.reason, response.attempts) == ("no 2", "", 2)


def test_a_repair_that_does_not_fit_leaves_the_first_reply(task: Task[Any], server: LoopbackServer) -> None:
    too_long = Fault(status=400, error={"message": "maximum context length is 10 tokens"})
    server.faults = lambda call: Fault(text="cba") if len(call.body["messages"]) == 4 else too_long
    [response] = ask_all(task, model(server), "abc")
    assert (response.text, response.reason, response.attempts) == ("cba", "", 2)


@pytest.mark.parametrize("text", ['{"text": "cba"}', '```json\n{"text": "cba"}\n```', '  {"text":"cba"}\n'])
def test_what_needs_no_repair(text: str, task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(text=text)
    [response] = ask_all(task, model(server, structured="text"), "abc")
    assert (response.text, response.attempts) == (text, 1)
    assert task.parse(response).text == "cba"
