"""A program that answers batch files, as `vllm run-batch` does: each line of an input becomes a line of its output."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

Answer = Callable[[Mapping[str, Any]], str]


def output_line(request: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the line of a reply to the request of a line, with the counts of tokens of `LoopbackServer`."""
    message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning": None, "tool_calls": []}
    prompt = len(orjson.dumps(request["body"]["messages"])) // 4
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": len(text) // 4 + 1}
    usage |= {"prompt_tokens_details": {"cached_tokens": prompt // 2}}
    body: dict[str, Any] = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    body |= {"model": request["body"]["model"], "usage": usage}
    response = {"status_code": 200, "request_id": "vllm-batch-1", "body": body}
    return {"id": "vllm-1", "custom_id": request["custom_id"], "response": response, "error": None}


def refused_line(request: Mapping[str, Any], status: int, message: str) -> dict[str, Any]:
    """Return the line of a request that vLLM refuses."""
    response = {"status_code": status, "request_id": "vllm-batch-1", "body": None}
    error = {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}
    return {"id": "vllm-1", "custom_id": request["custom_id"], "response": response, "error": error}


def requests_of(file: Path) -> list[dict[str, Any]]:
    """Return the requests of a file."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def unanswered(folder: Path) -> list[Path]:
    """Return the files of requests that have no output."""
    inputs = [file for file in sorted(folder.glob("*.jsonl")) if ".output" not in file.name]
    return [file for file in inputs if not list(folder.glob(f"{file.stem}.output*"))]


def answer_all(folder: Path, answer: Answer) -> int:
    """Answer all files that have no output; return the number of requests."""
    count = 0
    for file in unanswered(folder):
        requests = requests_of(file)
        assert len({request["custom_id"] for request in requests}) == len(requests) > 0
        assert all((request["method"], request["url"]) == ("POST", "/v1/chat/completions") for request in requests)
        lines = [json.dumps(output_line(request, answer(request["body"]))) for request in requests]
        file.with_name(f"{file.stem}.output.jsonl").write_text("\n".join(lines) + "\n")
        count += len(requests)
    return count
