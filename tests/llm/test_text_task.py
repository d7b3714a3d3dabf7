"""Tasks that are answered in plain text: no schema is sent, no repair is asked for."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fdarx_core.llm import Baseline, HttpEndpoint, Prompt, PromptError, TextTask, Unparsable, response_to
from fdarx_core.records import Response
from tests.llm.conftest import model
from tests.llm.loopback_server import Fault, LoopbackServer

GREETING = """
name: greet
version: 1
purpose: Greet someone.
slots: {who: the name}
system: You greet people.
user: "Greet {{ who }}."
response: text
"""


def greet(slots: Mapping[str, Any]) -> str:
    return f"Hello, {slots['who']}."


@pytest.fixture
def greeting() -> TextTask:
    return TextTask(Prompt.from_yaml(GREETING, "prompts/greet.yaml"), greet)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=lambda body: "  Good day, {friend}\n") as running:
        yield running


def _asked(server: LoopbackServer, task: TextTask, **fields: Any) -> Response:
    async def run() -> Response:
        endpoint = HttpEndpoint(model(server, **fields))
        try:
            return await endpoint.ask(task.request({"who": "Ada"}, endpoint="m", sampling=endpoint.sampling))
        finally:
            await endpoint.close()

    return asyncio.run(run())


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_text_comes_back_as_it_is(kind: str, greeting: TextTask, server: LoopbackServer) -> None:
    response = _asked(server, greeting, kind=kind, base_url=server.url if kind == "anthropic" else server.openai_url)
    assert greeting.parse(response) == "Good day, {friend}"
    [call] = server.calls
    assert not {"response_format", "output_config", "tools"} & call.body.keys()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(Fault(text="   "), "empty_reply"), (Fault(text="cut", finish_reason="length"), "truncated_reply")],
)
def test_what_is_no_reply(fault: Fault, reason: str, greeting: TextTask, server: LoopbackServer) -> None:
    server.faults = lambda call: fault
    with pytest.raises(Unparsable) as error:
        greeting.parse(_asked(server, greeting))
    assert error.value.reason == reason


def test_the_baseline_answers_by_its_rules(greeting: TextTask) -> None:
    [response] = Baseline({greeting.name: greeting}, "r1").answer(
        [greeting.request({"who": "Ada"}, endpoint="baseline")]
    )
    assert greeting.parse(response) == "Hello, Ada."


def test_a_failed_request_is_no_reply(greeting: TextTask) -> None:
    failed = response_to(greeting.request({"who": "Ada"}, endpoint="m"), "too long", reason="context_too_long")
    with pytest.raises(Unparsable, match="context_too_long"):
        greeting.parse(failed)


EXAMPLES = """
examples:
  - slots: {who: Grace}
    reply: |
      Hello, Grace.
"""


def test_examples_are_turns_between_system_and_question() -> None:
    task = TextTask(Prompt.from_yaml(GREETING + EXAMPLES, "prompts/greet.yaml"), greet)
    task.check()
    request = task.request({"who": "Ada"}, endpoint="m")
    assert [(message["role"], message["content"]) for message in request.messages] == [
        ("system", "You greet people."),
        ("user", "Greet Grace."),
        ("assistant", "Hello, Grace."),
        ("user", "Greet Ada."),
    ]
    assert pickle.loads(pickle.dumps(task)).request({"who": "Ada"}, endpoint="m") == request


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("reply: |\n      Hello, Grace.", "reply: {text: Hello}", "an example's reply is no text"),
        ("reply: |\n      Hello, Grace.", 'reply: " "', "an example's reply is no text"),
        ("{who: Grace}", "{whom: Grace}", "an example's slots don't fit"),
        ("response: text", "response: GreetReply", "response is 'GreetReply'"),
    ],
)
def test_a_prompt_that_does_not_fit_a_text_task(old: str, new: str, said: str) -> None:
    text = GREETING + EXAMPLES
    assert old in text
    with pytest.raises(PromptError, match=said):
        TextTask(Prompt.from_yaml(text.replace(old, new), "prompts/greet.yaml"), greet).check()


def test_a_prompt_that_wants_a_schema_is_no_text_task() -> None:
    with pytest.raises(PromptError, match="response: text"):
        TextTask.load("generate_factual", greet)
