"""Whatever a server does, a request gets a response with a fixed reason, or asking stops with one clear line.

Replies are held to their schema as well as the server can, and repaired once where it cannot.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import TRANSIENT, EndpointStopped, Task, find_task
from tests.llm.conftest import answer_all, ask_all, model
from tests.llm.loopback_server import Call, Fault, LoopbackServer

pytestmark = pytest.mark.usefixtures("quick_retries")
FINE = '{"text": "cba"}'

TRANSIENT_FAULTS = {
    "429": (Fault(status=429, retry_after="0"), "rate_limited"),
    "429 without Retry-After": (Fault(status=429), "rate_limited"),
    "500": (Fault(status=500), "server_error"),
    "502": (Fault(status=502, raw=b"<html>Bad Gateway</html>"), "server_error"),
    "503": (Fault(status=503, retry_after="0"), "server_error"),
    "504": (Fault(status=504), "server_error"),
    "529": (Fault(status=529), "overloaded"),
    "408": (Fault(status=408), "timeout"),
    "dropped": (Fault(drop=True), "connection"),
    "cut off": (Fault(cut=True), "cut_body"),
    "silent": (Fault(latency=30), "timeout"),
    "trickles for ever": (Fault(endless=b'{"a": '), "timeout"),
    "floods for ever": (Fault(endless=b"x" * (1 << 20)), "reply_too_large"),
    "no JSON": (Fault(raw=b"Internal hiccup"), "bad_reply"),
    "nothing": (Fault(raw=b""), "bad_reply"),
    "deep JSON": (Fault(raw=b"[" * 100_000), "bad_reply"),
    "error with 200": (Fault(reply={"error": {"message": "upstream failed"}}), "server_error"),
    "429 in the body": (Fault(reply={"error": {"code": "429", "message": "slow down"}}), "rate_limited"),
    "a list": (Fault(reply=[1, 2]), "wrong_shape"),
    "choices of another shape": (Fault(reply={"choices": {"0": "text"}}), "wrong_shape"),
    "content is a number": (Fault(message={"content": 7}), "wrong_shape"),
    "no choice": (Fault(reply={"choices": []}), "empty_choices"),
    "429 in the choice": (
        Fault(reply={"choices": [{"message": {"content": ""}, "error": {"code": 429, "message": "upstream"}}]}),
        "rate_limited",
    ),
}

FINAL_FAULTS = {
    "content null": (Fault(message={"content": None}), "null_content"),
    "no content": (
        Fault(reply={"choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}]}),
        "null_content",
    ),
    "message null": (Fault(reply={"choices": [{"message": None, "finish_reason": "stop"}]}), "null_content"),
    "context length in the body": (
        Fault(reply={"error": {"code": "context_length_exceeded", "message": "maximum context length is 8192 tokens"}}),
        "context_too_long",
    ),
    "context length as Gemini says it": (
        Fault(status=400, error={"message": "The input token count (9) exceeds the maximum number of tokens (8)."}),
        "context_too_long",
    ),
    "context length as TGI says it": (
        Fault(status=422, error={"message": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"}),
        "context_too_long",
    ),
    "refusal": (Fault(message={"content": None, "refusal": "I can't help with that."}), "refusal"),
    "context length": (
        Fault(status=400, error={"message": "This model's maximum context length is 1024 tokens."}),
        "context_too_long",
    ),
    "context length in the body, without a code": (
        Fault(reply={"error": {"message": "This model's maximum context length is 8192 tokens"}}),
        "context_too_long",
    ),
    "request too large": (Fault(status=413, raw=b""), "context_too_long"),
    "bad parameter": (Fault(status=400, error={"message": "temperature must be below 2"}), "refused_request"),
    "2 MB of white space in the text": (Fault(text='{"text":' + " " * (2 << 20)), "whitespace_loop"),
    "2 MB of line feeds": (Fault(text="\n" * (2 << 20), finish_reason="length"), "whitespace_loop"),
    "white space for ever": (Fault(endless=b" \n" * 8192), "whitespace_loop"),
    "escaped white space for ever": (Fault(endless=b"\\n\\t" * 8192), "whitespace_loop"),
}

FATAL_FAULTS = {
    "wrong key": (Fault(status=401, error={"message": "Incorrect API key"}), "no_access.*Incorrect API key.*key_env"),
    "no credit": (Fault(status=429, error={"code": "insufficient_quota", "message": "Quota"}), "no_access.*key_env"),
    "forbidden": (Fault(status=403), "forbidden.*key_env"),
    "unknown model": (Fault(status=404, error={"message": "The model tiny does not exist"}), "tiny does not exist"),
    "redirect": (Fault(status=307), "not_found.*base_url"),
    "payment required": (Fault(status=402, error={"message": "Add credits"}), "no_access.*Add credits"),
    "payment required, in the body": (Fault(reply={"error": {"code": 402, "message": "Add credits"}}), "Add credits"),
    "no quota, in the body": (Fault(reply={"error": {"code": "insufficient_quota", "message": "Quota"}}), "Quota"),
}


def broken(server: LoopbackServer, fault: Fault, when: Callable[[Call], bool] = lambda call: True) -> None:
    """For every call whose last message is on the word bad."""
    server.faults = lambda call: fault if "Word: bad" in str(call.body["messages"]) and when(call) else None


@pytest.mark.parametrize("name", TRANSIENT_FAULTS)
def test_a_fault_that_stays_costs_its_row_alone(name: str, task: Task[Any], server: LoopbackServer) -> None:
    fault, reason = TRANSIENT_FAULTS[name]
    broken(server, fault)
    good, bad = ask_all(task, model(server, timeout_s=0.5, max_wait_s=0.2), "good", "bad")
    assert (good.text, good.reason, good.attempts) == (FINE, "", 1)
    assert (bad.reason, bad.finish_reason) == (f"{TRANSIENT}{reason}", "error")
    assert bad.text
    assert bad.attempts >= 2


@pytest.mark.parametrize("name", [name for name in TRANSIENT_FAULTS if "ever" not in name])
def test_a_fault_that_passes_costs_nothing(name: str, task: Task[Any], server: LoopbackServer) -> None:
    broken(server, TRANSIENT_FAULTS[name][0], when=lambda call: call.attempt == 1)
    [response] = ask_all(task, model(server, timeout_s=0.5), "bad")
    assert (response.text, response.reason, response.attempts) == (FINE, "", 2)


@pytest.mark.parametrize("name", FINAL_FAULTS)
def test_what_stays_wrong_is_asked_once(name: str, task: Task[Any], server: LoopbackServer) -> None:
    fault, reason = FINAL_FAULTS[name]
    broken(server, fault)
    good, bad = ask_all(task, model(server), "good", "bad")
    assert (good.text, good.reason) == (FINE, "")
    assert (bad.reason, bad.finish_reason, bad.attempts) == (reason, "error", 1)
    assert len(bad.text) < 1000


def test_what_is_refused_is_counted_with_its_tokens(task: Task[Any], server: LoopbackServer) -> None:
    broken(server, Fault(message={"content": None, "refusal": "No."}))
    [response] = ask_all(task, model(server), "bad")
    assert response.text == "No."
    assert response.prompt_tokens > response.cached_tokens > 0 < response.completion_tokens


def test_a_reply_cut_at_max_tokens_is_kept_as_such(task: Task[Any], server: LoopbackServer) -> None:
    broken(server, Fault(text='{"text": "cb', finish_reason="length"))
    [response] = ask_all(task, model(server), "bad")
    assert (response.text, response.reason, response.finish_reason) == ('{"text": "cb', "", "length")
    broken(server, Fault(message={"content": None}, finish_reason="length"))
    [response] = ask_all(task, model(server), "bad")
    assert (response.text, response.reason, response.finish_reason) == ("", "", "length")


@pytest.mark.parametrize("name", FATAL_FAULTS)
def test_asking_stops_at_once(name: str, task: Task[Any], server: LoopbackServer) -> None:
    fault, message = FATAL_FAULTS[name]
    server.faults = lambda call: fault
    with pytest.raises(EndpointStopped, match=message) as stopped:
        ask_all(task, model(server, max_in_flight=2), *"abcdefgh")
    assert "\n" not in str(stopped.value)
    assert server.number <= 2


def test_what_to_do_about_a_key_depends_on_the_entry(
    task: Task[Any], server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "k" * 20)
    server.faults = lambda call: Fault(status=401)
    for fields, remedy in (
        ({}, "set key_env: NAME_OF_A_VARIABLE in the entry of .* in the models file"),
        ({"key_env": "SOME_KEY"}, "check the key that key_env names"),
        ({"headers": {"X-Key": "${SOME_KEY}"}}, "check the key that headers names"),
        ({"key_command": "echo key"}, "check the key that key_command names"),
    ):
        with pytest.raises(EndpointStopped, match=remedy):
            ask_all(task, model(server, **fields), "a")


def test_an_address_without_a_path_is_told_to_end_in_v1(task: Task[Any], server: LoopbackServer) -> None:
    root = server.openai_url.removesuffix("/v1")
    with pytest.raises(EndpointStopped, match=r"not_found: .*; check model and base_url, which mostly ends in /v1, in"):
        ask_all(task, model(server, base_url=root), "a")


def test_a_server_that_refuses_every_request_is_not_asked_for_ever(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=400, error={"message": "top_p must be below 1"})
    with pytest.raises(EndpointStopped, match=r"top_p must be below 1.*check model, sampling"):
        ask_all(task, model(server, max_in_flight=2), *map(str, range(100)))
    assert server.number <= 18


def test_once_it_has_answered_a_missing_page_is_tried_again(task: Task[Any], server: LoopbackServer) -> None:
    broken(server, Fault(status=404), when=lambda call: call.attempt == 1)
    responses = ask_all(task, model(server, max_in_flight=1), "good", "bad")
    assert [(one.reason, one.attempts) for one in responses] == [("", 1), ("", 2)]


def test_no_server_there(task: Task[Any]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = LoopbackServer(port=free.getsockname()[1])
        with pytest.raises(EndpointStopped, match=r"connection: .*check base_url .* and that the server is up"):
            ask_all(task, model(closed), "a", "b")


def test_no_such_host(task: Task[Any], server: LoopbackServer) -> None:
    with pytest.raises(EndpointStopped, match=r"no-such-host.invalid.*check base_url"):
        ask_all(task, model(server, base_url="http://no-such-host.invalid/v1"), "a", "b")


def test_a_certificate_that_nobody_vouches_for(task: Task[Any], tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-days", "2", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with LoopbackServer(ssl_context=context) as server, pytest.raises(EndpointStopped, match=r"tls: .*certificate"):
        ask_all(task, model(server), "a", "b")


def test_half_a_surrogate_pair_is_mended(task: Task[Any], server: LoopbackServer) -> None:
    reply = b'{"choices": [{"message": {"content": "{\\"text\\": \\"\\ud83d\\"}"}, "finish_reason": "stop"}]}'
    server.faults = lambda call: Fault(raw=reply)
    [response] = ask_all(task, model(server), "a")
    assert (response.reason, response.text) == ("", '{"text": "?"}')


def test_a_server_that_fails_every_request_is_not_asked_for_ever(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=500)
    with pytest.raises(EndpointStopped, match="server_error"):
        ask_all(task, model(server, max_in_flight=4), *map(str, range(200)))
    assert server.number < 100


@pytest.mark.parametrize("max_in_flight", [1, 100])
def test_one_that_answers_now_and_then_is_asked_on(task: Task[Any], server: LoopbackServer, max_in_flight: int) -> None:
    """With a hundred in flight all that can be answered is, at first, and the retries that follow fail in a row."""
    server.faults = lambda call: None if int(call.prompt, 16) % 3 == 0 else Fault(status=500)
    responses = ask_all(task, model(server, max_in_flight=max_in_flight), *map(str, range(100)))
    assert 0 < sum(not response.reason for response in responses) < 100


def test_one_that_dies_is_not_asked_for_ever(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: None if call.number <= 50 else Fault(status=500)
    with pytest.raises(EndpointStopped, match="server_error"):
        ask_all(task, model(server, max_in_flight=4), *map(str, range(200)))
    assert server.number < 200


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


@pytest.mark.parametrize(
    "refusal",
    [
        "Invalid schema for response_format 'x': In context=('properties', 'question'), 'maxLength' is not permitted.",
        "output_config.format.schema: For 'string' type, properties maxLength, minLength are not supported",
    ],
)
def test_a_server_that_takes_no_lengths_gets_the_schema_without_them(refusal: str, server: LoopbackServer) -> None:
    """The schema itself stays: only where it is refused too, a weaker mode follows."""
    limited = find_task("standalone_question")
    server.answer = lambda body: '{"question": "What is the dose of Velorin?"}'
    server.faults = lambda call: (
        Fault(status=400, error={"message": refusal}) if "maxLength" in str(call.body["response_format"]) else None
    )
    slots = {"history": [], "question": "and the dose?", "names": []}
    requests = [limited.request(slots | {"question": text}, endpoint="m") for text in ("and the dose?", "and food?")]
    responses = answer_all(requests, model(server, max_in_flight=1))
    assert [one.attempts for one in responses] == [2, 1]
    assert all(limited.parse(one).question for one in responses)
    schemas = [call.body["response_format"]["json_schema"]["schema"] for call in server.calls]
    assert ["maxLength" in str(schema) for schema in schemas] == [True, False, False]
    assert {call.body["response_format"]["type"] for call in server.calls} == {"json_schema"}


def test_a_long_reason_is_not_repaired(server: LoopbackServer) -> None:
    limited = find_task("judge_useful_context")
    server.answer = lambda body: '{"reason": "' + "so it is " * 500 + '", "useful": true}'
    request = limited.request({"question": "a", "reference": "b", "context": "c"}, endpoint="m")
    [response] = answer_all([request], model(server, structured="text"))
    assert response.attempts == 1 and limited.parse(response).useful


@pytest.mark.parametrize(
    "refusal",
    [
        "System role not supported",
        "Developer instruction is not enabled; this model does not support system messages",
        "Conversation roles must alternate user/assistant/user/assistant/...",
    ],
)
def test_a_model_without_a_system_role_gets_its_text_before_the_first_turn(
    refusal: str, task: Task[Any], server: LoopbackServer
) -> None:
    def faults(call: Call) -> Fault | None:
        has_system = any(message["role"] == "system" for message in call.body["messages"])
        return Fault(status=400, error={"message": refusal}) if has_system else None

    server.faults = faults
    responses = ask_all(task, model(server, max_in_flight=1), "good", "fine", "well")
    assert [response.reason for response in responses] == ["", "", ""]
    assert server.number == 4
    [system, *turns] = server.calls[0].body["messages"]
    [[turn, *rest]] = [call.body["messages"] for call in server.calls[1:] if call.body["messages"][-1] == turns[-1]]
    assert turn["content"] == f"{system['content']}\n\n{turns[0]['content']}"
    assert rest == turns[1:]


def test_a_parameter_that_the_server_does_not_know_stops_the_asking_at_once(
    task: Task[Any], server: LoopbackServer
) -> None:
    server.faults = lambda call: Fault(status=400, error={"message": "Unsupported parameter: 'top_k'."})
    with pytest.raises(EndpointStopped, match=r"refused_request.*'top_k'.*check model, sampling"):
        ask_all(task, model(server, max_in_flight=1, sampling={"top_k": 5}), *map(str, range(20)))
    assert server.number <= 2


def test_counts_of_another_type_lose_no_reply(task: Task[Any], server: LoopbackServer) -> None:
    reply = {"choices": [{"message": {"content": FINE}, "finish_reason": "stop"}], "usage": "12 tokens"}
    server.faults = lambda call: Fault(reply=reply)
    [response] = ask_all(task, model(server), "good")
    assert (response.text, response.reason, response.prompt_tokens) == (FINE, "", 0)


def test_a_server_that_fails_is_to_be_looked_at_itself(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=500)
    with pytest.raises(EndpointStopped, match="log of the server"):
        ask_all(task, model(server, max_tries=1, max_in_flight=2), *map(str, range(200)))


def test_the_newer_name_of_max_tokens(task: Task[Any], server: LoopbackServer) -> None:
    refusal = Fault(status=400, error={"message": "Unsupported parameter: use 'max_completion_tokens' instead."})
    server.faults = lambda call: refusal if "max_tokens" in call.body else None
    responses = ask_all(task, model(server, max_in_flight=1, max_tokens=99), "a", "b")
    assert [(one.text, one.attempts) for one in responses] == [(FINE, 2), (FINE, 1)]
    assert server.calls[-1].body["max_completion_tokens"] == 99


@pytest.mark.parametrize(
    "first",
    ["The word is cba", '{"txt": "cba"}', '{"text": ["cba"]}', "[]", "", '<think>{"text": "cba"}</think>cba'],
    ids=["prose", "other field", "other type", "list", "empty", "thought"],
)
def test_one_repair(first: str, task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(text=first) if len(call.body["messages"]) == 4 else None
    [response] = ask_all(task, model(server, structured="text"), "abc")
    assert (response.text, response.reason, response.attempts) == (FINE, "", 2)
    said, asked = server.calls[1].body["messages"][-2:]
    assert said["content"] == (first or "(nothing)")
    assert asked["content"].endswith('{"text": "..."}') and "required" not in asked["content"]
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


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "cba"}',
        '```json\n{"text": "cba"}\n```',
        '  {"text":"cba"}\n',
        '<think>{"text": "abc"}?</think>{"text": "cba"}',
        'Here it is: {"text": "cba"}',
    ],
)
def test_what_needs_no_repair(text: str, task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(text=text)
    [response] = ask_all(task, model(server, structured="text"), "abc")
    assert (response.text, response.attempts) == (text, 1)
    assert task.parse(response).text == "cba"
