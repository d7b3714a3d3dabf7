"""The baseline endpoint: it answers each task by the task's rules, without a model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from fdarx_core.llm.response_store import ResponseStore
from fdarx_core.llm.task import UNDECIDED, Task, Undecided, models_only
from fdarx_core.records import Request, Response

_WORDS = re.compile(r"\s*\S+|\s+$")


class Baseline:
    """Answers each task by its rules: no weights, no network, no tokens; equal requests get equal text.

    `rules` identifies the state of the rules (`source_digest` of the packages that hold them). The baseline is a lower
    bound for comparisons. It is named `baseline` and is not a language model. `tasks` names the tasks that have rules.
    """

    name = "baseline"

    def __init__(self, tasks: Mapping[str, Task[Any]], rules: str) -> None:
        self._tasks = dict(tasks)
        self.tasks = frozenset(name for name, task in tasks.items() if task.baseline is not models_only)
        self.sampling: Mapping[str, Any] = {"rules": rules}

    def answer(self, requests: Sequence[Request]) -> list[Response]:
        """Return the responses in the order of the requests. Raises ValueError for a task or version it does not have.

        A rule that raises gives its response the reason baseline_error; one that raises Undecided, undecided.
        """
        return [self._answer(request) for request in requests]

    async def ask(self, request: Request) -> Response:
        """Return the response. Rules compute for milliseconds: a thread lets other requests continue."""
        [response] = await asyncio.to_thread(self.answer, [request])
        return response

    async def stream(self, request: Request) -> AsyncGenerator[str | Response, None]:
        """Yield the text of a response word by word, and at the end the response, as `HttpEndpoint.stream` does."""
        response = await self.ask(request)
        for word in [] if response.reason else _WORDS.findall(response.text):
            yield word
        yield response

    def _answer(self, request: Request) -> Response:
        task = self._tasks.get(request.task)
        if task is None or task.version != request.task_version:
            known = ", ".join(f"{name} {known_task.version}" for name, known_task in self._tasks.items())
            raise ValueError(f"baseline has no rules for task {request.task} {request.task_version}, only for {known}")
        try:
            return response_to(request, task.by_rules(request.slots))
        except Undecided as error:
            return response_to(request, str(error), reason=UNDECIDED)
        except Exception as error:  # one bad row must not cost its batch
            return response_to(request, f"{type(error).__name__}: {error}", reason="baseline_error")


def ask(requests: Sequence[Request], baseline: Baseline, store: ResponseStore | None) -> list[Response]:
    """Return the baseline's response to each request, in their order; those in the store are read back.

    The others are computed, once for each distinct key, and stored. Raises ValueError for another endpoint's request.
    To ask a model, use `Model` or `Asker`.
    """
    for request in requests:
        if request.endpoint != baseline.name:
            raise ValueError(f"request {request.key} is for endpoint {request.endpoint}, not for {baseline.name}")
    responses = store.get([request.key for request in requests]) if store else {}
    missing = {request.key: request for request in requests if request.key not in responses}
    if missing:
        computed = baseline.answer(list(missing.values()))
        if store:
            store.put(computed)
        responses |= {response.key: response for response in computed}
    return [responses[request.key] for request in requests]


def response_to(request: Request, text: str, reason: str = "") -> Response:
    """Return a response to a request. For a failure, `reason` is its fixed name and `text` the detail.

    Unpaired surrogates, which servers do send and no file can hold, become "?".
    """
    finish = "error" if reason else "stop"
    storable = text.encode("utf-8", "replace").decode()
    return Response(request.key, request.task, request.task_version, request.endpoint, storable, reason, finish)
