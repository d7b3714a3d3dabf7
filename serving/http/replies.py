"""What is told of a question: found passages, an answer, what it took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson
from starlette.responses import Response

from fdarx_core.rag.flow import Finding, RagReply
from fdarx_core.records import Found
from fdarx_core.records import Response as ModelResponse
from serving.http.asking import Asking

_PHASES = ("rewrite", "search", "postprocess")


def json_reply(content: object, status: int = 200) -> Response:
    """Straight to bytes: what the service makes itself needs no validation."""
    return Response(orjson.dumps(content), status, media_type="application/json")


def found_reply(id_: str, asking: Asking, finding: Finding) -> dict[str, Any]:
    """A SearchReply."""
    timings = {phase: _ms(finding.seconds.get(phase, 0.0)) for phase in _PHASES}
    return {
        "id": id_,
        "question": asking.question,
        "degraded": degraded(finding, None),
        "passages": [_passage(number, found) for number, found in enumerate(finding.contexts, 1)],
        "strategy": asking.recipe.strategy.name,
        "retriever": asking.retriever,
        "postprocess": asking.recipe.postprocess,
        "searches": [search.text for search in finding.searches],
        "timings_ms": {**timings, "answer": 0.0, "total": _ms(time.monotonic() - asking.since)},
        "index": {"corpus": asking.corpus.name, "version": asking.tools.version or asking.corpus.version},
        "usage": _usage(_responses(finding)),
    }


def unanswered(id_: str, asking: Asking, finding: Finding, model: str) -> dict[str, Any]:
    """An AnswerReply before there is an answer."""
    answer = {"answer": "", "refused": False, "citations": [], "model": model}
    return found_reply(id_, asking, finding) | answer


def answered(sofar: dict[str, Any], asking: Asking, finding: Finding, reply: RagReply) -> dict[str, Any]:
    """The AnswerReply, of what was known before the answer."""
    read, took = reply.read, {"answer": _ms(reply.seconds), "total": _ms(time.monotonic() - asking.since)}
    responses = [*_responses(finding), *([reply.response] if reply.response else [])]
    return sofar | {
        "answer": read.text,
        "refused": read.refused,
        "citations": read.citations,
        "degraded": degraded(finding, reply),
        "passages": [passage | {"cited": passage["n"] in read.citations} for passage in sofar["passages"]],
        "timings_ms": sofar["timings_ms"] | took,
        "usage": _usage(responses),
    }


def degraded(finding: Finding, reply: RagReply | None) -> str | None:
    """What had to be done without, by fixed names: what servers say of their troubles is not for clients."""
    missing = dict.fromkeys(_names(line) for line in finding.missing)
    if reply and reply.reason:
        reason = reply.response.reason if reply.response and reply.response.reason else _names(reply.reason, 1)
        missing[f"answer: {reason}"] = None
    return "; ".join(missing) or None


def _names(line: str, parts: int = 2) -> str:
    """ "hyde_passage: failed_request" of a line that goes on with details."""
    return ": ".join(line.split(": ")[:parts])


def _passage(number: int, found: Found) -> dict[str, Any]:
    chunk = found.chunk
    return {
        "n": number,
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "title": chunk.title,
        "section": chunk.section,
        "text": chunk.text,
        "set_id": chunk.set_id,
        "drug": chunk.drug,
        "score": found.score,
        "rerank": found.rerank,
        "cited": False,
    }


def _responses(finding: Finding) -> list[ModelResponse]:
    return [*finding.rewritten, *finding.scored]


def _usage(responses: Sequence[ModelResponse]) -> dict[str, int]:
    return {
        "prompt_tokens": sum(response.prompt_tokens for response in responses),
        "completion_tokens": sum(response.completion_tokens for response in responses),
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
