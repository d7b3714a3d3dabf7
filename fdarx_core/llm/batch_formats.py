"""The batch APIs of OpenAI and Anthropic: how batches are written, and how their states and results are read.

Sources: openai 3.54 (types/batch.py, types/batch_create_params.py, resources/files.py), anthropic-sdk-python
(types/messages/message_batch.py, batch_create_params.py, batch_list_params.py), and the vendors' guides for the lines
of results.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import aiohttp
import orjson

from fdarx_core.llm.failures import TRANSIENT, Failure, error_message, reported_failure, status_failure
from fdarx_core.llm.model_config import ModelConfig, count_messages, estimate_tokens
from fdarx_core.llm.transport import HttpTransport
from fdarx_core.llm.wire_formats import Messages
from fdarx_core.records import Request, Response

_QUEUE_FULL = "token_limit_exceeded"
"""OpenAI's code for a batch that would exceed the tokens that an account may have waiting."""
_ENDED = frozenset(("completed", "failed", "expired", "cancelled"))


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """What a server says of a batch.

    Args:
        id: the server's name for it.
        state: its state in the server's words.
        done, total: its requests that are done, and all; 0 where the server has not counted them yet.
        ended: nothing more will happen to it; its results are at the addresses `results`.
        fault: why the server took none of its requests, or "".
        queue_full: the fault is that too much waits already: the batch may be submitted again later.
        input_file: the server's name for the file of its requests, where there is one.
        name: the name under which it was submitted, where the server keeps one.
        created_at: seconds since the epoch.
    """

    id: str
    state: str
    done: int
    total: int
    ended: bool
    results: Sequence[str]
    created_at: float
    fault: str = ""
    queue_full: bool = False
    input_file: str = ""
    name: str = ""


class OpenAIBatches:
    """OpenAI's Batch API: requests are uploaded as a file, and its results are two files, of replies and of errors.

    Other formats have the same members. `max_requests` and `max_bytes` bound one batch, `named` says that the server
    keeps the names of batches, and `cursor` is the parameter with which a list of them goes on.
    """

    max_requests = 50_000
    max_bytes = 200_000_000
    named = True
    cursor = "after"

    def url(self, base_url: str) -> str:
        """Return the address at which batches are created and listed."""
        return f"{base_url}/batches"

    def item(self, custom_id: str, body: bytes) -> bytes:
        """Return a request as part of a batch."""
        head = orjson.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions"})
        return head[:-1] + b',"body":' + body + b"}\n"

    def body(self, items: Sequence[bytes]) -> bytes:
        """Return a whole batch."""
        return b"".join(items)

    async def submit(
        self, transport: HttpTransport, base_url: str, name: str, body: bytes, input_file: str = ""
    ) -> BatchStatus:
        """Create a batch. Raises Failure.

        `input_file` is that of a batch which the server refused because its queue was full; it takes the body's place.
        """
        if not input_file:
            form = aiohttp.FormData()
            form.add_field("purpose", "batch")
            form.add_field("file", io.BytesIO(body), filename=f"{name}.jsonl", content_type="application/jsonl")
            input_file = (await transport.call("POST", f"{base_url}/files", form()))["id"]
        batch = {"input_file_id": input_file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        data = orjson.dumps({**batch, "metadata": {"fdarx_batch": name}})
        return self.status(base_url, await transport.call("POST", self.url(base_url), data))

    def status(self, base_url: str, reply: Mapping[str, Any]) -> BatchStatus:
        """Read what the server says of a batch."""
        state, counts = str(reply["status"]), reply.get("request_counts") or {}
        errors = (reply.get("errors") or {}).get("data") or [] if state == "failed" else []
        files = [reply[kind] for kind in ("output_file_id", "error_file_id") if reply.get(kind)]
        return BatchStatus(
            id=str(reply["id"]),
            state=state.replace("_", " "),
            done=counts.get("completed", 0) + counts.get("failed", 0),
            total=counts.get("total", 0),
            ended=state in _ENDED,
            results=[f"{base_url}/files/{file}/content" for file in files],
            created_at=float(reply["created_at"]),
            fault=error_message(orjson.dumps({"error": errors[0]})) if errors else "",
            queue_full=any(error.get("code") == _QUEUE_FULL for error in errors),
            input_file=str(reply.get("input_file_id") or ""),
            name=str((reply.get("metadata") or {}).get("fdarx_batch") or ""),
        )

    def result(self, line: Mapping[str, Any]) -> tuple[str, bytes | Failure]:
        """Return the custom id of a line of results, and the body of its reply or why there is none.

        One that has neither a reply nor a known error is a failure that another attempt may cure. vLLM gives an error
        beside the status, and not in the body.
        """
        reply, error = line.get("response") or {}, line.get("error") or {}
        status, body = reply.get("status_code", 200 if reply.get("body") else 0), reply.get("body")
        if status == 200:
            return str(line["custom_id"]), orjson.dumps(body)
        if status:
            return line["custom_id"], _single(status_failure(status, {}, orjson.dumps(body or error), answered=True))
        code = str(error.get("code") or "batch_error")
        return line["custom_id"], Failure(TRANSIENT + code, str(error.get("message") or code))


class AnthropicBatches:
    """Anthropic's Message Batches API: a batch is one call, and its results are one file of lines."""

    max_requests = 100_000
    max_bytes = 256_000_000
    named = False
    cursor = "after_id"

    def url(self, base_url: str) -> str:
        return f"{base_url}/messages/batches" if base_url.endswith("/v1") else f"{base_url}/v1/messages/batches"

    def item(self, custom_id: str, body: bytes) -> bytes:
        return b"," + orjson.dumps({"custom_id": custom_id})[:-1] + b',"params":' + body + b"}"

    def body(self, items: Sequence[bytes]) -> bytes:
        return b"".join((b'{"requests":[', items[0][1:], *items[1:], b"]}"))

    async def submit(
        self, transport: HttpTransport, base_url: str, name: str, body: bytes, input_file: str = ""
    ) -> BatchStatus:
        """Create a batch, which this API takes as a whole or answers with 429: there is no `input_file`."""
        return self.status(base_url, await transport.call("POST", self.url(base_url), io.BytesIO(body)))

    def status(self, base_url: str, reply: Mapping[str, Any]) -> BatchStatus:
        """The address of the results is made of the batch's id, so that the key goes to no other server."""
        state, counts = str(reply["processing_status"]), dict(reply["request_counts"])
        total = sum(counts.values())
        batch = str(reply["id"])
        return BatchStatus(
            id=batch,
            state=state.replace("_", " "),
            done=total - counts.get("processing", 0),
            total=total,
            ended=state == "ended",
            results=[f"{self.url(base_url)}/{batch}/results"] if state == "ended" else [],
            created_at=datetime.fromisoformat(reply["created_at"]).timestamp(),
        )

    def result(self, line: Mapping[str, Any]) -> tuple[str, bytes | Failure]:
        result = line["result"]
        kind = result["type"]
        if kind == "succeeded":
            return line["custom_id"], orjson.dumps(result["message"])
        if kind == "errored":
            error = result["error"].get("error") or result["error"]
            return line["custom_id"], _single(reported_failure(orjson.dumps({"error": error}), error))
        return line["custom_id"], Failure(f"{TRANSIENT}batch_{kind}", f"the request is {kind}")


BatchFormat: TypeAlias = OpenAIBatches | AnthropicBatches

OPENAI_BATCHES = OpenAIBatches()
BATCH_FORMATS: Mapping[str, BatchFormat] = {"openai": OPENAI_BATCHES, "anthropic": AnthropicBatches()}
"""By the `kind` of a model's configuration."""


def custom_id_of(request: Request, messages: Messages) -> str:
    """Return the id of a request in a batch: its key, and whether `messages` ask for a repair of the reply."""
    return f"{request.key}-{'repair' if len(messages) > len(request.messages) else 'reply'}"


def most_cost(config: ModelConfig, messages: Messages) -> float:
    """Return the most US dollars that a request in a batch may cost, by the estimated tokens of its prompt."""
    if config.prices is None:
        return 0.0
    most = Response("", "", 0, "", "", batched=True, completion_tokens=config.max_tokens)
    most.prompt_tokens = count_messages(messages, estimate_tokens)
    return config.prices.cost(most)


def _single(failure: Failure) -> Failure:
    """Return a failure of one request of a batch. It slows down no others, and one more attempt counts as one."""
    failure.throttled, failure.retry_after = False, None
    return failure
