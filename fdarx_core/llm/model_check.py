"""What a model can do on its server: a few short requests, and what follows from the replies for the models file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from fdarx_core.llm.baseline import response_to
from fdarx_core.llm.failures import TRANSIENT, EndpointStopped
from fdarx_core.llm.http_endpoint import RESUME, HttpEndpoint, schema_fault
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.reply import Reply, reply_form
from fdarx_core.llm.task import Unparsable, reply_text
from fdarx_core.llm.wire_formats import OutputMode, ServerFeatures
from fdarx_core.records import Request, Response

MODES: tuple[OutputMode, ...] = ("json_schema", "json_object", "text")
"""The ways to a reply of a schema, the most reliable first."""

_STOPPED = "stopped"
_SYSTEM = "You answer questions about doses of medicines. End each reply with the word heron."
_STRUCTURED_SYSTEM = "You answer questions about doses of medicines."
_QUESTION = "Which dose is larger, 5 mg or 50 mg?"
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")
"""Names of the context length in lists of models, of vLLM, OpenRouter, Groq, Mistral and Anthropic."""


class _LargerDose(Reply):
    larger_mg: int


_SCHEMA = _LargerDose.model_json_schema()
_FORMED = f"{_QUESTION} Reply with one JSON object of this form, with your own value: {reply_form(_SCHEMA)}"


@dataclass(slots=True)
class ModelCheck:
    """What a model can do on its server.

    Attributes:
        name: the model's name in the models file.
        error: why the model cannot be used; "" for a model that can.
        modes: for each of `MODES`, why the model gives no reply of a schema in this way; "" where it does.
        unanswered: the modes of which nothing is known, because the server failed for now or took too long.
        system_role: `obeyed`, `not obeyed`, or `refused`: then the system message is sent with the first question.
        context_length: tokens of prompt and reply together, by the server's list of models, else by the models file.
        token_limit: the parameter that limits the tokens of a reply on this server.
        seconds: the time of the fastest reply.
        tokens_per_second: completion tokens a second, of the reply with most of them.
        cost: US dollars for what was asked, by the prices of the models file; None without prices.
        write: fields to write in the model's entry of the models file.
        notes: what else the entry may need, and why.
    """

    name: str
    error: str = ""
    modes: dict[OutputMode, str] = field(default_factory=dict)
    unanswered: list[OutputMode] = field(default_factory=list)
    system_role: str = ""
    context_length: int | None = None
    token_limit: str = ""
    seconds: float | None = None
    tokens_per_second: float | None = None
    cost: float | None = None
    write: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


async def check_models(models: Iterable[ModelConfig], *, timeout_s: float = 60) -> list[ModelCheck]:
    """Ask models a few short questions, all models at the same time; return what each can do, in their order.

    Args:
        models: the models; `load_models(file, check_access=False)` also returns those whose key is missing here.
        timeout_s: seconds to wait for one reply, at most the `timeout_s` of the model.
    """
    return await asyncio.gather(*(_check(model, timeout_s) for model in models))


async def _check(config: ModelConfig, timeout_s: float) -> ModelCheck:
    check = ModelCheck(config.name, context_length=config.context_length)
    try:
        config.check_access()
    except ValueError as error:
        check.error = str(error)
        return check
    seconds, longest = min(timeout_s, config.timeout_s), config.timeout_s
    quick = {"timeout_s": seconds, "max_wait_s": min(seconds, config.max_wait_s), "max_tries": 2}
    config = config.model_copy(update=quick)
    plain = await _exchange(config, _SYSTEM, _QUESTION, {})
    exchanges, check.error = [plain], plain.fault
    for mode in () if check.error else MODES:
        of_mode = config.model_copy(update={"structured": mode})
        question = _QUESTION if mode == "json_schema" else _FORMED
        exchanges.append(await _exchange(of_mode, _STRUCTURED_SYSTEM, question, _SCHEMA))
        check.modes[mode] = exchanges[-1].fault
        if exchanges[-1].response.reason.startswith((TRANSIENT, _STOPPED)):
            check.unanswered.append(mode)
    _read_list(check, config, plain.listed)
    if any(one.response.finish_reason == "length" for one in exchanges):
        check.notes.append(f"max_tokens: write more than {config.max_tokens:,}; a reply was cut there")
    if any(one.response.reason == f"{TRANSIENT}timeout" for one in exchanges):
        wait = "check with a greater --timeout-s" if seconds < longest else "write more in the models file"
        check.notes.append(f"timeout_s: a reply took longer than {seconds:g} s; {wait}")
    if check.error:
        return check
    check.token_limit = plain.features.token_limit
    heard = "heron" in plain.response.text.lower()
    check.system_role = "refused" if not plain.features.system_role else "obeyed" if heard else "not obeyed"
    replies = [one.response for one in exchanges if not one.response.reason]
    check.seconds = min(one.latency_s for one in replies)  # the first reply of a server may be slow
    check.tokens_per_second = max(one.completion_tokens / one.latency_s for one in replies) or None
    check.cost = sum(one.cost for one in exchanges) if config.prices else None
    _propose(check, config)
    return check


@dataclass(frozen=True, slots=True)
class _Exchange:
    request: Request
    response: Response
    features: ServerFeatures
    cost: float
    listed: list[dict[str, Any]]

    @property
    def fault(self) -> str:
        """What is wrong with the reply; "" for a usable one, of the schema if there is one."""
        reason = self.response.reason.removeprefix(TRANSIENT)
        if reason:
            return self.response.text if reason == _STOPPED else f"{reason}: {self.response.text}"
        try:
            text = reply_text(self.response)
        except Unparsable as error:
            return f"{error.reason}: {error.detail}"
        fault = schema_fault(text, self.request, "text") if self.request.schema else ""
        return fault and f"the reply has another form: {fault}; it begins {text[:60]!r}"


async def _exchange(config: ModelConfig, system: str, question: str, schema: Mapping[str, Any]) -> _Exchange:
    """Ask a question; also read the server's list of models with the question that has no schema."""
    endpoint = HttpEndpoint(config)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    request = Request("check", "check_model", 1, config.name, {}, messages, dict(schema), dict(endpoint.sampling))
    try:
        try:
            response = await endpoint.ask(request, repair=False)
        except EndpointStopped as stopped:
            about = str(stopped).removeprefix(f"model {config.name} ({config.model}) ").removesuffix(RESUME)
            response = response_to(request, about, _STOPPED)
        listed = [] if schema else await endpoint.listed_models()
        return _Exchange(request, response, endpoint.features(request), endpoint.counters.cost, listed)
    finally:
        await endpoint.close()


def _read_list(check: ModelCheck, config: ModelConfig, listed: list[dict[str, Any]]) -> None:
    """Take over the context length that the server lists of the model, or note which models it lists instead."""
    ids = [entry["id"] for entry in listed]
    if ids and config.model not in ids:
        near = get_close_matches(config.model, ids) or [*ids[:3], *["…"] * (len(ids) > 3)]
        check.notes.append(f"model: the server does not list {config.model}; it lists {', '.join(near)}")
    for entry in listed:
        lengths = [entry[name] for name in _CONTEXT_FIELDS if isinstance(entry.get(name), int)]
        if entry["id"] == config.model and lengths:
            check.context_length = lengths[0]
            if config.context_length is None or config.context_length > lengths[0]:
                check.write["context_length"] = lengths[0]


def _propose(check: ModelCheck, config: ModelConfig) -> None:
    """Add what the replies say about the entry of the models file."""
    used = "json_schema" if config.structured == "auto" else config.structured
    best = next((mode for mode in MODES if not check.modes[mode]), None)
    if check.unanswered:
        check.notes.append(f"structured: no reply with {', '.join(check.unanswered)}; check again")
    elif best is None:
        check.notes.append("structured: no way works; the model can answer questions, but neither write nor judge them")
    elif best != used:
        check.write["structured"] = best
    if check.context_length is None:
        check.notes.append("context_length: the server does not say it; without it, prompts that are too long fail")
    if config.prices is None:
        check.notes.append("prices: without them costs are unknown, and --max-cost is refused")
