"""What is sent to both kinds of servers, and how their replies and events are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm import ModelConfig, Task
from fdarx_core.llm.attempts import PendingRequest
from fdarx_core.llm.failures import Failure, decode_json
from fdarx_core.llm.streaming import EventDecoder, Redactor
from fdarx_core.llm.wire_formats import (
    AnthropicFormat,
    Completion,
    OpenAIFormat,
    OutputMode,
    cut_whitespace_loop,
    token_count,
)
from fdarx_core.records import Request
from fdarx_core.storage.retry import parse_retry_after
from tests.llm.conftest import ask_all, model
from tests.llm.loopback_server import Fault, LoopbackServer, text_of

FINE = '{"text": "cba"}'
WIRES: list[OpenAIFormat] = [OpenAIFormat(), AnthropicFormat()]
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
    assert "cache_control" in AnthropicFormat().payload(bare, bare.messages, "text")["system"][0]


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
def test_payloads_are_json_and_hold_no_settings_of_ours(wire: OpenAIFormat, mode: OutputMode, task: Task[Any]) -> None:
    payload = wire.payload(asked(task), asked(task).messages, mode)
    assert "structured" not in orjson.loads(orjson.dumps(payload))


@pytest.mark.parametrize("wire", WIRES)
@given(reply=st.dictionaries(st.sampled_from(["choices", "content", "usage", "stop_reason"]), JSON))
def test_any_reply_is_an_answer_or_a_known_error(wire: OpenAIFormat, reply: dict[str, Any]) -> None:
    try:
        answer = wire.completion(reply)
    except (Failure, KeyError, IndexError, TypeError, AttributeError):
        return
    assert isinstance(answer.text, str)
    assert isinstance(answer.usage.prompt, int)


@given(st.binary(max_size=200))
def test_any_body_is_json_or_a_failure(body: bytes) -> None:
    try:
        decode_json(body)
    except Failure as failure:
        assert failure.reason == "transient_bad_reply"
        assert "\n" not in failure.detail


def test_content_in_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "other"}, {"type": "text", "text": "b"}]
    reply = {"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}
    assert OpenAIFormat().completion(reply).text == "ab"


@pytest.mark.parametrize("value", [None, "7", -1, 2.5, 2**60, [], {}])
def test_what_is_no_token_count(value: Any) -> None:
    assert token_count(value) == 0


@given(
    before=st.text(max_size=20), blank=st.sampled_from(" \n\t"), size=st.integers(0, 9000), after=st.text(max_size=20)
)
def test_only_loops_are_cut(before: str, blank: str, size: int, after: str) -> None:
    answer = Completion(before + blank * size + after, "stop")
    cut_whitespace_loop(answer)
    if size >= 4096:
        assert (answer.text, answer.reason) == (before.rstrip(), "whitespace_loop")
    elif size < 4000:
        assert (answer.text, answer.reason) == (before + blank * size + after, "")


def test_retry_after_in_seconds_and_as_a_date() -> None:
    assert parse_retry_after("2.5") == 2.5
    assert parse_retry_after("-3") == 0
    in_a_minute = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=60), usegmt=True)
    assert parse_retry_after(in_a_minute) == pytest.approx(60, abs=2)
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    for no_time in (None, "", "soon", "inf", "nan"):
        assert parse_retry_after(no_time) is None


@given(key=st.text(max_size=8), tries=st.integers(1, 12), seconds=st.floats(0, 1000))
def test_patience_ends(key: str, tries: int, seconds: float) -> None:
    waits = []
    patience = PendingRequest(Request(key, "t", 1, "m", {}, [], {}), tries, seconds)
    patience.sent = 1
    while (wait := patience.delay_after(Failure("transient_server_error", ""))) is not None:
        waits.append(wait)
        patience.sent += 1
    assert len(waits) < tries
    assert sum(waits) <= seconds
    assert all(wait <= 60 for wait in waits)


@given(key=st.text(max_size=8), seconds=st.floats(0, 1000), asks=st.none() | st.floats(0, 2000))
def test_being_throttled_is_bounded_by_time_alone(key: str, seconds: float, asks: float | None) -> None:
    patience = PendingRequest(Request(key, "t", 1, "m", {}, [], {}), 1, seconds)
    waited, told = 0.0, Failure("transient_rate_limited", "", throttled=True, retry_after=asks)
    for patience.sent in range(1, 10_000):
        wait = patience.delay_after(told)
        if wait is None:
            break
        assert wait >= max(asks or 0, 0.25)
        waited += wait
    assert wait is None
    assert waited <= seconds


STREAMS = {
    "one": (b"data: a\n\n", [b"a"]),
    "carriage returns and line feeds": (b"event: e\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    "carriage returns": (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    "lines of data": (b"data: a\ndata:\ndata:  b\n\n", [b"a\n\n b"]),
    "no space": (b"data:a:b\n\n", [b"a:b"]),
    "comments and other fields": (b": ping\n\n:\nid: 7\nretry: 9\nnonsense\ndata: a\n\n", [b"a"]),
    "no data": (b"event: e\n\ndata: a\n\n", [b"a"]),
    "no blank line at the end": (b"data: a\n\ndata: b", [b"a", b"b"]),
    "characters of several bytes": ("data: µg é 漢 🧪\n\n".encode(), ["µg é 漢 🧪".encode()]),
    "nothing": (b"", []),
    "blank lines": (b"\n\r\n\r\r\n\n", []),
}
LINES = st.sampled_from(
    [b"data: a", b"data:\xc2\xb5", b"data", b"event: e", b": c", b"id: 1", b"", b"", b"\xff", b"x:y"]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def read(portions: Sequence[bytes]) -> list[bytes]:
    decoder = EventDecoder()
    found = [event for portion in portions for event in decoder.feed(portion)]
    return [*found, *decoder.finish()]


def cut(whole: bytes, places: Sequence[int]) -> list[bytes]:
    borders = sorted({0, len(whole), *(place % (len(whole) + 1) for place in places)})
    return [whole[start:end] for start, end in pairwise(borders)]


@pytest.mark.parametrize("name", STREAMS)
def test_events_of_a_stream(name: str) -> None:
    stream, expected = STREAMS[name]
    assert read([stream]) == expected
    assert read([stream[at : at + 1] for at in range(len(stream))]) == expected


@given(lines=st.lists(st.tuples(LINES, ENDS), max_size=20), places=st.lists(st.integers(0, 400), max_size=40))
def test_any_cut_gives_the_same_events(lines: list[tuple[bytes, bytes]], places: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    assert read(cut(stream, places)) == read([stream])


@given(stream=st.binary(max_size=200), places=st.lists(st.integers(0, 200), max_size=20))
def test_any_bytes_are_read(stream: bytes, places: list[int]) -> None:
    assert read([*cut(stream, places), b""]) == read([stream])


@given(data=st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))), end=ENDS)
def test_data_come_back_as_they_were(data: list[str], end: bytes) -> None:
    stream = b"".join(b"data: " + one.encode() + end + end for one in data)
    assert [event.decode() for event in read([stream])] == data


def shown(secret: str, pieces: Sequence[str]) -> str:
    redactor = Redactor([secret])
    return "".join(redactor.feed(piece) for piece in pieces) + redactor.finish()


@given(secret=st.text("ab", min_size=1, max_size=5), pieces=st.lists(st.text("ab[", max_size=6), max_size=12))
def test_a_secret_is_covered_however_it_is_cut(secret: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    assert secret not in shown(secret, pieces)
    if secret not in text:
        assert shown(secret, pieces) == text
    assert shown(secret, pieces) == shown(secret, list(text)) == text.replace(secret, "[key]")


@given(st.lists(st.text(max_size=5)))
def test_without_a_secret_nothing_is_held_back(pieces: list[str]) -> None:
    redactor = Redactor([])
    assert [redactor.feed(piece) for piece in pieces] == pieces
