"""What tests of streamed replies share: a task of plain text, requests of it, and all pieces of a reply."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from fdarx_core.llm import HttpEndpoint, ModelConfig, Prompt, Task
from fdarx_core.records import Request, Response
from tests.llm.conftest import model
from tests.llm.loopback_server import Fault, LoopbackServer, Trouble

TEXT = "  Take 50 µg once a day 🧪 with 漢字.\n\n- Not with food.\n"
LONG = Fault(text=TEXT * 1000, stream=Trouble(every=0.02))
"""A reply that comes for minutes, so that whoever stops does so before its end, also on a loaded machine."""
CHAT = """
name: chat
version: 1
purpose: Answer.
slots: {question: what is asked}
system: You answer.
user: "{{ question }}"
response: text
"""


def by_rules(slots: Mapping[str, Any]) -> str:
    if not slots["question"].strip():
        raise ValueError("nothing was asked")
    return str(slots["question"])


CHATTING = Task(Prompt.from_yaml(CHAT, "prompts/chat.yaml"), str, by_rules)


def config(server: LoopbackServer, kind: str = "openai", **fields: Any) -> ModelConfig:
    return model(server, kind=kind, max_in_flight=1, **fields)


def request_to(endpoint: HttpEndpoint, question: str = "How much?") -> Request:
    return CHATTING.request({"question": question}, endpoint=endpoint.name, sampling=endpoint.sampling)


async def heard(pieces: AsyncGenerator[str | Response, None]) -> tuple[list[str], Response]:
    """All pieces, and the one response after them."""
    texts: list[str] = []
    async with aclosing(pieces):
        async for piece in pieces:
            if isinstance(piece, Response):
                assert [rest async for rest in pieces] == []
                return texts, piece
            texts.append(piece)
    raise AssertionError("no response")


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for what the server's thread sees a little later; pytest's timeout ends a test in vain."""
    while not condition():
        time.sleep(0.01)
