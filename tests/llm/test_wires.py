"""What goes over the wire, and what is read from it, for both kinds of servers."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm import ModelConfig, Task
from fdarx_core.llm.anthropic_wire import AnthropicWire
from fdarx_core.llm.exchange import Answer, Failure, Mode, Wire, decoded, tokens
from fdarx_core.llm.guards import cut_whitespace_loop
from fdarx_core.llm.openai_wire import OpenAIWire
from fdarx_core.llm.patience import Patience
from fdarx_core.records import Request
from fdarx_core.storage.retry_after import retry_after
from tests.llm.conftest import ask_all, model
from tests.llm.loopback_server import Fault, LoopbackServer, text_of

FINE = '{"text": "cba"}'
WIRES: list[Wire] = [OpenAIWire(), AnthropicWire()]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "text", "type", "usage", "stop_reason"]), inner
        )
    ),
)


def claude(server: LoopbackServer, **fields: Any) -> ModelConfig:
    return model(server, kind="anthropic", base_url=server.url, **fields)


def asked(task: Task[Any]) -> Request:
    sampling = {"model": "tiny", "max_tokens": 9, "structured": "auto"}
    return task.request({"word": "abc", "times": 1}, endpoint="m", sampling=sampling)


def test_anthropic_gets_what_it_expects(task: Task[Any], server: LoopbackServer) -> None:
    [response] = ask_all(task, claude(server, sampling={"temperature": 0}), "word")
    [call] = server.calls
    assert (call.path, call.headers["anthropic-version"]) == ("/v1/messages", "2023-06-01")
    assert call.body["system"][0]["text"].startswith("You turn words round")
    assert [turn["role"] for turn in call.body["messages"]] == ["user", "assistant", "user"]
    assert call.body["output_config"]["format"] == {"type": "json_schema", "schema": task.reply.model_json_schema()}
    assert {name: call.body[name] for name in ("model", "max_tokens", "temperature")} == {
        "model": "tiny",
        "max_tokens": 1024,
        "temperature": 0,
    }
    assert (response.text, response.finish_reason) == (FINE, "stop")
    assert response.prompt_tokens > response.cached_tokens > 0 < response.completion_tokens


def test_what_requests_share_is_marked_for_the_cache(task: Task[Any], server: LoopbackServer) -> None:
    ask_all(task, claude(server), "word")
    body = server.calls[0].body
    marked = [
        block for turn in (body, *body["messages"]) for block in turn.get("content", []) if "cache_control" in block
    ]
    assert marked == [body["messages"][1]["content"][0]]
    bare = task.request({"word": "abc", "times": 1}, endpoint="m", sampling={"max_tokens": 1})
    bare.messages = [bare.messages[0], bare.messages[-1]]
    assert "cache_control" in AnthropicWire().payload(bare, bare.messages, "text")["system"][0]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_tokens_read_from_a_cache_and_written_to_it(kind: str, task: Task[Any], server: LoopbackServer) -> None:
    """OpenAI counts both within the prompt, Anthropic beside it."""
    details = {"cached_tokens": 200, "cache_write_tokens": 700}
    chat = {"prompt_tokens": 1000, "completion_tokens": 5, "prompt_tokens_details": details}
    beside = {"cache_read_input_tokens": 200, "cache_creation_input_tokens": 700}
    message = {"input_tokens": 100, **beside, "output_tokens": 5}
    content = [{"type": "text", "text": FINE}]
    reply = {
        "openai": {"choices": [{"message": {"content": FINE}, "finish_reason": "stop"}], "usage": chat},
        "anthropic": {"content": content, "stop_reason": "end_turn", "usage": message},
    }[kind]
    server.faults = lambda call: Fault(reply=reply)
    [response] = ask_all(task, model(server) if kind == "openai" else claude(server), "word")
    found = (response.prompt_tokens, response.cached_tokens, response.written_tokens, response.completion_tokens)
    assert found == (1000, 200, 700, 5)


def test_a_forced_tool_call_where_schemas_are_refused(task: Task[Any], server: LoopbackServer) -> None:
    refusal = Fault(status=400, error={"type": "invalid_request_error", "message": "output_config: unknown field"})
    call = Fault(message={"type": "tool_use", "name": "reply", "input": {"text": "cba"}}, finish_reason="tool_use")
    server.faults = lambda seen: refusal if "output_config" in seen.body else call
    [response] = ask_all(task, claude(server), "word")
    assert (json.loads(response.text), response.attempts) == ({"text": "cba"}, 2)
    assert server.calls[1].body["tool_choice"] == {"type": "tool", "name": "reply"}
    assert server.calls[1].body["tools"][0]["input_schema"] == task.reply.model_json_schema()


def test_anthropic_s_faults(task: Task[Any], server: LoopbackServer) -> None:
    faults = {
        "refusal": Fault(text="I won't.", finish_reason="refusal"),
        "empty": Fault(reply={"content": [], "stop_reason": "end_turn", "usage": {}}),
        "long": Fault(status=400, error={"message": "prompt is too long: 210000 tokens > 200000 maximum"}),
        "cut": Fault(text='{"te', finish_reason="length"),
    }
    server.faults = lambda call: next(fault for word, fault in faults.items() if f"Word: {word}" in str(call.body))
    responses = ask_all(task, claude(server), *faults)
    assert [(one.reason, one.finish_reason) for one in responses] == [
        ("refusal", "error"),
        ("null_content", "error"),
        ("context_too_long", "error"),
        ("", "length"),
    ]


def test_a_repair_over_anthropic_s_api(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(text="cba") if len(call.body["messages"]) == 3 else None
    [response] = ask_all(task, claude(server), "word")
    assert (response.text, response.attempts) == (FINE, 2)
    assert text_of(server.calls[1].body["messages"][-2]) == "cba"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("mode", ["json_schema", "json_object", "text"])
def test_payloads_are_json_and_hold_no_settings_of_ours(wire: Wire, mode: Mode, task: Task[Any]) -> None:
    payload = wire.payload(asked(task), asked(task).messages, mode)
    assert "structured" not in orjson.loads(orjson.dumps(payload))


@pytest.mark.parametrize("wire", WIRES)
@given(reply=st.dictionaries(st.sampled_from(["choices", "content", "usage", "stop_reason"]), JSON))
def test_any_reply_is_an_answer_or_a_known_error(wire: Wire, reply: dict[str, Any]) -> None:
    try:
        answer = wire.answer(reply)
    except (Failure, KeyError, IndexError, TypeError, AttributeError):
        return
    assert isinstance(answer.text, str)
    assert isinstance(answer.prompt_tokens, int)


@given(st.binary(max_size=200))
def test_any_body_is_json_or_a_failure(body: bytes) -> None:
    try:
        decoded(body)
    except Failure as failure:
        assert failure.reason == "transient_bad_reply"
        assert "\n" not in failure.detail


def test_content_in_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "other"}, {"type": "text", "text": "b"}]
    reply = {"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}
    assert OpenAIWire().answer(reply).text == "ab"


@pytest.mark.parametrize("value", [None, "7", -1, 2.5, 2**60, [], {}])
def test_what_is_no_token_count(value: Any) -> None:
    assert tokens(value) == 0


@given(
    before=st.text(max_size=20), blank=st.sampled_from(" \n\t"), size=st.integers(0, 9000), after=st.text(max_size=20)
)
def test_only_loops_are_cut(before: str, blank: str, size: int, after: str) -> None:
    answer = Answer(before + blank * size + after, "stop")
    cut_whitespace_loop(answer)
    if size >= 4096:
        assert (answer.text, answer.reason) == (before.rstrip(), "whitespace_loop")
    elif size < 4000:
        assert (answer.text, answer.reason) == (before + blank * size + after, "")


def test_retry_after_in_seconds_and_as_a_date() -> None:
    assert retry_after("2.5") == 2.5
    assert retry_after("-3") == 0
    in_a_minute = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=60), usegmt=True)
    assert retry_after(in_a_minute) == pytest.approx(60, abs=2)
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    for no_time in (None, "", "soon", "inf", "nan"):
        assert retry_after(no_time) is None


@given(key=st.text(max_size=8), tries=st.integers(1, 12), seconds=st.floats(0, 1000))
def test_patience_ends(key: str, tries: int, seconds: float) -> None:
    waits = []
    patience = Patience(key, tries, seconds)
    patience.sent = 1
    while (wait := patience.seconds_after(Failure("transient_server_error", ""))) is not None:
        waits.append(wait)
        patience.sent += 1
    assert len(waits) < tries
    assert sum(waits) <= seconds
    assert all(wait <= 60 for wait in waits)


@given(key=st.text(max_size=8), seconds=st.floats(0, 1000), asks=st.none() | st.floats(0, 2000))
def test_being_told_to_wait_is_bounded_by_time_alone(key: str, seconds: float, asks: float | None) -> None:
    patience = Patience(key, 1, seconds)
    waited, told = 0.0, Failure("transient_rate_limited", "", told_to_wait=True, retry_after=asks)
    for patience.sent in range(1, 10_000):
        wait = patience.seconds_after(told)
        if wait is None:
            break
        assert wait >= max(asks or 0, 0.25)
        waited += wait
    assert wait is None
    assert waited <= seconds
