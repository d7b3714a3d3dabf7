"""Spans of requests to models: names and attributes by the semantic conventions, and no content."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names
from opentelemetry.semconv.attributes import error_attributes, server_attributes

from fdarx_core import telemetry
from fdarx_core.llm import HttpEndpoint, ModelConfig, Prompt, Task, attempts
from fdarx_core.records import Request, Response
from tests.llm.helpers import SPELLING, SpellReply, spell
from tests.llm.loopback_server import Fault, LoopbackServer
from tests.telemetry.otlp_receiver import OtlpReceiver, ReceivedSpan

WORD = "abcdefgh"
TASK = Task(Prompt.from_yaml(SPELLING, "prompts/spell_backwards.yaml"), SpellReply, spell)
CHAT = """
name: chat
version: 1
purpose: Turn a word round.
slots: {word: the word}
system: You turn words round.
user: "{{ word }}"
response: text
"""
CHATTING = Task(Prompt.from_yaml(CHAT, "prompts/chat.yaml"), str, lambda slots: str(slots["word"])[::-1])


def asked(server: LoopbackServer, collector: OtlpReceiver, kind: str = "openai") -> list[ReceivedSpan]:
    """The spans of one request, the first attempt first."""
    url = server.openai_url if kind == "openai" else server.url
    config = ModelConfig(name="m", model="tiny", base_url=url, kind=kind, sampling={"temperature": 0.5}, max_tries=2)

    async def run() -> None:
        endpoint = HttpEndpoint(config)
        with telemetry.span("test"):
            await endpoint.ask(request_to(endpoint))
        await endpoint.close()

    asyncio.run(run())
    telemetry.flush()
    return collector.named("chat tiny")


def request_to(endpoint: HttpEndpoint) -> Request:
    return TASK.request({"word": WORD, "times": 1}, endpoint=endpoint.name, sampling=endpoint.sampling)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_request_has_a_span_with_the_names_of_the_conventions(collector: OtlpReceiver, kind: str) -> None:
    with LoopbackServer(answer=lambda body: '{"text": "hgfedcba"}') as server:
        [chat] = asked(server, collector, kind)
        port = server.port
    [outer] = collector.named("test")
    assert chat.kind == "client" and not chat.failed and chat.parent == outer.id and chat.trace_id == outer.trace_id
    found = dict(chat.attributes)
    assert found.pop(names.GEN_AI_USAGE_INPUT_TOKENS) > 0 and found.pop(names.GEN_AI_USAGE_OUTPUT_TOKENS) > 0
    assert found.pop(names.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS) > 0
    assert found.pop(names.GEN_AI_REQUEST_MAX_TOKENS) > 0
    assert found == {
        names.GEN_AI_OPERATION_NAME: names.GenAiOperationNameValues.CHAT.value,
        names.GEN_AI_PROVIDER_NAME: kind,
        names.GEN_AI_REQUEST_MODEL: "tiny",
        names.GEN_AI_REQUEST_TEMPERATURE: 0.5,
        names.GEN_AI_OUTPUT_TYPE: names.GenAiOutputTypeValues.JSON.value,
        names.GEN_AI_PROMPT_NAME: "spell_backwards",
        names.GEN_AI_RESPONSE_FINISH_REASONS: ["stop"],
        server_attributes.SERVER_ADDRESS: "127.0.0.1",
        server_attributes.SERVER_PORT: port,
    }
    assert chat.resource["service.name"] == "fdarx"


def test_each_attempt_has_a_span_and_a_failed_one_its_reason(
    collector: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "_FIRST_WAIT_S", 0.01)
    with LoopbackServer(answer=lambda body: '{"text": "hgfedcba"}') as server:
        server.faults = lambda call: Fault(status=500) if call.attempt == 1 else None
        first, second = asked(server, collector)
    assert first.failed and not second.failed
    assert first.attributes[error_attributes.ERROR_TYPE].startswith("transient_")
    assert first.attributes["http.response.status_code"] == 500
    assert error_attributes.ERROR_TYPE not in second.attributes


def test_a_streamed_reply_has_a_span_until_its_end(collector: OtlpReceiver) -> None:
    async def run(server: LoopbackServer) -> None:
        endpoint = HttpEndpoint(ModelConfig(name="m", model="tiny", base_url=server.openai_url))
        request = CHATTING.request({"word": WORD}, endpoint="m", sampling=endpoint.sampling)
        pieces = [piece async for piece in endpoint.stream(request)]
        assert isinstance(pieces[-1], Response) and pieces[-1].text == "hgfedcba"
        await endpoint.close()

    with LoopbackServer(answer=lambda body: "hgfedcba") as server:
        asyncio.run(run(server))
    telemetry.flush()
    [chat] = collector.named("chat tiny")
    assert chat.attributes[names.GEN_AI_OUTPUT_TYPE] == "text"
    assert chat.attributes[names.GEN_AI_RESPONSE_FINISH_REASONS] == ["stop"]
    assert chat.attributes[names.GEN_AI_USAGE_OUTPUT_TOKENS] > 0


def test_no_span_has_content_of_prompts_or_replies(collector: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_FIRST_WAIT_S", 0.01)
    with LoopbackServer(answer=lambda body: '{"text": "hgfedcba"}') as server:
        server.faults = lambda call: Fault(status=400, error={"message": f"cannot spell {WORD}"})
        asked(server, collector)
        server.faults = lambda call: None
        assert len(asked(server, collector)) >= 2
    assert not [one.raw for one in collector.spans if WORD in one.raw or WORD[::-1] in one.raw]


def test_without_a_collector_there_are_no_spans(collector: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    with LoopbackServer(answer=lambda body: '{"text": "hgfedcba"}') as server:
        assert asked(server, collector) == []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    telemetry.flush()
    assert collector.spans == [] and telemetry.trace_parent() == ""
