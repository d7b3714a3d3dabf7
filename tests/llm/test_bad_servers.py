"""Whatever a server does, each row gets a response with a fixed reason, or asking stops with one clear line."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import TRANSIENT, EndpointStopped, Task
from tests.llm.conftest import ask_all, model
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
    "error with 200": (Fault(reply={"error": {"message": "upstream failed"}}), "wrong_shape"),
    "a list": (Fault(reply=[1, 2]), "wrong_shape"),
    "choices of another shape": (Fault(reply={"choices": {"0": "text"}}), "wrong_shape"),
    "content is a number": (Fault(message={"content": 7}), "wrong_shape"),
    "no choice": (Fault(reply={"choices": []}), "empty_choices"),
}

FINAL_FAULTS = {
    "content null": (Fault(message={"content": None}), "null_content"),
    "refusal": (Fault(message={"content": None, "refusal": "I can't help with that."}), "refusal"),
    "context length": (
        Fault(status=400, error={"message": "This model's maximum context length is 1024 tokens."}),
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
