"""What is asked of a model and what it said: kept apart, so that a changed parser re-reads and never pays again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Request:
    """One question to one endpoint, complete: `key` is a hash of every other field that can change the answer.

    `messages` are role and content as OpenAI-compatible servers take them; `slots` are the task's inputs from which
    they were rendered (the baseline answers from these); `schema` is the response's JSON schema.
    """

    key: str
    task: str
    task_version: int
    endpoint: str
    slots: dict[str, Any]
    messages: list[dict[str, str]]
    schema: dict[str, Any]
    sampling: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Response:
    """What came back for a request, before anything parses it. `reason` is "" unless asking failed for good.

    `prompt_tokens` includes the `cached_tokens` that the server read from its prompt cache, and the `written_tokens`
    that a vendor charges for writing to it. `attempts` counts the HTTP requests that it took; `latency_s` is that of
    the last, from sending to the whole reply.
    """

    key: str
    task: str
    task_version: int
    endpoint: str
    text: str
    reason: str = ""
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    cached_tokens: int = 0
    attempts: int = 1
    written_tokens: int = 0
