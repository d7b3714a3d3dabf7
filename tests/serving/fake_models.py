"""Served models that need no engine: a Ray Serve deployment that speaks OpenAI's API, and can be told to fail."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import yaml
from ray import serve
from starlette.requests import Request

from fdarx_core.llm import ModelsError
from serving.served_model import ServedModel

ANSWER = "Take 5 mg once daily."
JUDGEMENT = '{"reason": "It says what the gold answer says.", "grade": "CORRECT"}'


class Broken(Exception):
    """What a model says that can't start."""


class FakeModel:
    """`engine.fault`: "broken" can't start, nor can "engine", whose log says why; "slow" takes for ever; any other
    starts and answers."""

    def __init__(self, fault: str) -> None:
        if fault == "broken":
            raise Broken("OSError: these weights are for another model,\nas their shapes say")
        if fault == "engine":
            print("(Worker pid=1) ERROR 11-22 09:26:31 [executor.py:953] weights.HeaderError: cut short", flush=True)
            print("(EngineCore pid=2) ERROR 11-22 09:26:36 [core.py:1] Exception: initialization failed", flush=True)
            raise RuntimeError("Engine core initialization failed. See root cause above.")
        if fault == "slow":
            time.sleep(3600)

    async def __call__(self, request: Request) -> dict[str, Any]:
        if request.method == "GET":
            return {"object": "list", "data": []}
        body = await request.json()
        message = {"role": "assistant", "content": JUDGEMENT if "response_format" in body else ANSWER}
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return {"object": "chat.completion", "choices": choices, "usage": usage}


_DEPLOYED: Any = serve.deployment(
    ray_actor_options={"num_cpus": 0.1}, max_constructor_retry_count=1, graceful_shutdown_wait_loop_s=0.1
)(FakeModel)


def build(model: ServedModel) -> serve.Application:
    fault = model.engine.get("fault", "")
    if fault == "unbuildable":
        raise ModelsError(f"model {model.name}: nothing is known of it")
    application: serve.Application = _DEPLOYED.bind(fault)
    return application


def served_file(folder: Path, name: str, **more: Any) -> Path:
    """A served model's file."""
    file = folder / f"{name}.yaml"
    common = {"name": name, "model": f"plain/{name}", "device": "cpu", "cpus": 0.2, "context_length": 100_000}
    file.write_text(yaml.safe_dump({**common, "ask": {"max_in_flight": 8, "max_tries": 2}, **more}))
    return file
