"""Requests through litellm, which knows the APIs and logins of many providers (Bedrock, Vertex AI, Cohere ...).

litellm sends each request once: limits, retries and stored responses are those of `HttpEndpoint`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cache
from typing import Any

import orjson

from fdarx_core.llm.credentials import Credentials, IssuedKey
from fdarx_core.llm.failures import TRANSIENT, EndpointStopped, Failure, status_failure
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.transport import Transport

_OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
"""Environment variables that keep litellm from downloading its tables and from reading an .env file."""
_SILENT = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
"""Loggers whose messages may hold keys."""
_QUIET = ("httpx", "httpcore", "openai")
"""Loggers that write the address of each request."""
_NO_REPLY = ("APIConnectionError", "InternalServerError")
"""Errors of litellm that also stand for lost connections, of which it tells no status."""


class LitellmTransport(Transport):
    """Passes requests and replies in OpenAI's format to and from litellm."""

    def __init__(self, config: ModelConfig, credentials: Credentials) -> None:
        super().__init__(config, credentials)
        self._checked = False

    async def post(self, body: bytes) -> bytes:
        key, options = self._prepare(body)
        try:
            async with asyncio.timeout(self._config.timeout_s):
                reply = await _litellm().acompletion(**options)
        except Exception as error:
            raise self._failure(error, key) from None  # no context: it would hold the key
        return self._received(reply, key)

    async def events(self, body: bytes) -> AsyncGenerator[bytes, None]:
        key, options = self._prepare(body)
        deadline = asyncio.get_running_loop().time() + self._config.timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                stream = await _litellm().acompletion(**options)
            async with aclosing(stream):
                while True:
                    async with asyncio.timeout_at(deadline):
                        chunk = await anext(stream, None)
                    if chunk is None:
                        break
                    yield self._received(chunk, key)
        except Exception as error:
            raise self._failure(error, key) from None
        yield b"[DONE]"

    async def close(self) -> None:
        """Do nothing: litellm shares its connections between models, and closes them when the process ends."""

    def _prepare(self, body: bytes) -> tuple[IssuedKey, dict[str, Any]]:
        """Return the key, and the arguments of a call of litellm."""
        if not self._checked:
            self._check()
        config, credentials = self._config, self._credentials
        options = orjson.loads(body) | credentials.litellm
        options |= {"timeout": config.timeout_s, "max_retries": 0, "num_retries": 0}
        if config.base_url:
            options["base_url"] = config.base_url
        if credentials.key.value:
            options["api_key"] = credentials.key.value
        if credentials.headers:
            options["extra_headers"] = dict(credentials.headers)
        return credentials.key, options

    def _check(self) -> None:
        """Raise EndpointStopped for a model that litellm does not know, before anything is sent."""
        name = f"model {self._config.name}"
        try:
            _litellm().get_llm_provider(self._config.model, api_base=self._config.base_url or None)
        except ImportError as error:
            missing = f"litellm cannot be imported ({error}); pip install 'fdarx[gateways]'"
            raise EndpointStopped(f"{name}: kind: {missing}") from None
        except Exception:
            unknown = f"litellm knows no provider of {self._config.model}"
            remedy = "write PROVIDER/MODEL as in https://docs.litellm.ai/docs/providers"
            raise EndpointStopped(f"{name}: model: {unknown}; {remedy}") from None
        self._checked = True

    def _received(self, reply: Any, key: IssuedKey) -> bytes:
        key.accepted = True
        self.answered_at = time.monotonic()
        content = reply.model_dump(exclude_none=True, warnings=False)
        for choice in content.get("choices", ()):
            _as_text(choice)
        return self._credentials.redacted_bytes(orjson.dumps(content, default=str))

    def _failure(self, error: Exception, key: IssuedKey) -> Exception:
        """Return our failure for an exception of litellm, or the exception itself where it is another."""
        if isinstance(error, (Failure, EndpointStopped)):
            return error
        if isinstance(error, TimeoutError):
            return Failure(f"{TRANSIENT}timeout", f"no reply within {self._config.timeout_s:g} s")
        status, detail = _status(error), self._credentials.redacted(str(error))
        if status is None:
            return Failure(f"{TRANSIENT}connection", f"{type(error).__name__}: {detail}")
        if type(error).__name__ == "ContextWindowExceededError":
            return Failure("context_too_long", detail, status=status)
        failure = status_failure(status, _headers(error), detail.encode(), self.answered_at > 0)
        return self._credentials.after_401(key, failure) if status == 401 else failure


@cache
def _litellm() -> Any:
    """Import litellm, with its downloads, telemetry, retries and logging switched off."""
    os.environ.update(_OFFLINE)
    for name in _SILENT:
        logging.getLogger(name).disabled = True
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.turn_off_message_logging = True
    litellm.num_retries = 0
    return litellm


def _as_text(choice: dict[str, Any]) -> None:
    """Make a reply that came as a forced tool call, which litellm has read as text, one that ended normally."""
    message = choice.get("message") or choice.get("delta") or {}
    if choice.get("finish_reason") == "tool_calls" and not message.get("tool_calls"):
        choice["finish_reason"] = "stop"
    if "message" in choice:
        message.setdefault("content", None)


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an error, or None where there was no reply."""
    status = getattr(error, "status_code", None)
    lost = type(error).__name__ in _NO_REPLY and getattr(error, "litellm_response_headers", None) is None
    return None if lost or not isinstance(status, int) or not 400 <= status < 600 else status


def _headers(error: Exception) -> Mapping[str, str]:
    """Return the headers of the reply with an error, where litellm passes them on."""
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    return {name.title(): value for name, value in headers.items()}
