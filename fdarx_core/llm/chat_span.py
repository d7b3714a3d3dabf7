"""The span of one attempt at a request to a model, by OpenTelemetry's semantic conventions for generative AI.

Source: the names in opentelemetry-semantic-conventions 0.66b2. They are in development, in a repository of their own.
"""

from __future__ import annotations

from types import TracebackType
from urllib.parse import urlsplit

from fdarx_core.llm.failures import Failure
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.wire_formats import Completion
from fdarx_core.records import Request
from fdarx_core.telemetry import Span, is_enabled, start_span

_SAMPLING = ("temperature", "top_p", "max_tokens", "seed")


class ChatSpan:
    """The span of the block's attempt; it begins with `start`, when the request has its slot.

    A Failure gives its reason as the span's error type. The span has neither the prompt nor the reply.
    """

    __slots__ = ("_config", "_request", "_span")

    def __init__(self, config: ModelConfig, request: Request) -> None:
        self._config, self._request, self._span = config, request, Span()

    def __enter__(self) -> ChatSpan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Failure):
            self._span.fail(error.reason)
            if error.status:
                self._span.set({"http.response.status_code": error.status})
        elif kind is not None:
            self._span.fail(kind.__name__)
        self._span.end()

    def start(self) -> None:
        """Begin the span; called right before the request is sent."""
        if not is_enabled():
            return
        server, request = urlsplit(self._config.base_url), self._request
        sampling = {f"gen_ai.request.{name}": request.sampling.get(name) for name in _SAMPLING}
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._config.kind,
            "gen_ai.request.model": self._config.model,
            "gen_ai.output.type": "json" if request.schema else "text",
            "gen_ai.prompt.name": request.task,
            "server.address": server.hostname or "",
            "server.port": server.port or (443 if server.scheme == "https" else 80),
            **{name: value for name, value in sampling.items() if value is not None},
        }
        self._span = start_span(f"chat {self._config.model}", attributes, kind="client")

    def received(self, completion: Completion) -> None:
        """Note the tokens and the end of the reply."""
        usage = completion.usage
        self._span.set(
            {
                "gen_ai.usage.input_tokens": usage.prompt,
                "gen_ai.usage.output_tokens": usage.completion,
                "gen_ai.usage.cache_read.input_tokens": usage.cached,
                "gen_ai.response.finish_reasons": [completion.finish_reason],
            }
        )
        if completion.reason:
            self._span.fail(completion.reason)
