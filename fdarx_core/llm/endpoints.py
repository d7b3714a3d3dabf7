"""Where requests go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from fdarx_core.records import Request, Response

TRANSIENT = "transient_"
"""What the reason of a failure begins with that asking again may cure (429, 5xx, timeout, a dead replica).

Such a response is never stored, so the next run asks again; every other one is final and is read back.
"""


class Answerable(Protocol):
    """What the baseline needs of a task (`Task`, `TextTask`): rules that answer it from its slots."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    def by_rules(self, slots: Mapping[str, Any]) -> str: ...


class Endpoint(Protocol):
    """Something that answers requests.

    `sampling` holds all that changes its answers beyond the prompt (model, temperature, token limit); it goes into each
    request and so into its key.
    """

    @property
    def name(self) -> str: ...

    @property
    def sampling(self) -> Mapping[str, Any]: ...

    def answer(self, requests: Sequence[Request]) -> Iterable[Response]:
        """One response a request, in any order, as they come in; one that failed has a reason."""
        ...


class Baseline:
    """Answers each task by its rules: no weights, no network, no tokens; equal requests get equal text.

    `rules` stands for the rules' state (`source_digest` of the packages that hold them). Source: the lower bound that
    every comparison needs; it is named `baseline` and is no language model.
    """

    name = "baseline"

    def __init__(self, tasks: Mapping[str, Answerable], rules: str) -> None:
        self._tasks = dict(tasks)
        self.sampling: Mapping[str, Any] = {"rules": rules}

    def answer(self, requests: Sequence[Request]) -> list[Response]:
        """In the order of the requests. Raises ValueError for a task, or a version of one, that it was not given."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Response:
        task = self._tasks.get(request.task)
        if task is None or task.version != request.task_version:
            known = ", ".join(f"{name} {one.version}" for name, one in self._tasks.items())
            raise ValueError(f"baseline has no rules for task {request.task} {request.task_version}, only for {known}")
        try:
            return response_to(request, task.by_rules(request.slots))
        except Exception as error:  # one bad row must not cost its batch
            return response_to(request, f"{type(error).__name__}: {error}", reason="baseline_error")


def response_to(request: Request, text: str, reason: str = "") -> Response:
    """A response under the request's key. Where asking failed, `reason` says how and `text` what was seen.

    Half surrogate pairs, which servers do send and no file can hold, become "?".
    """
    finish = "error" if reason else "stop"
    storable = text.encode("utf-8", "replace").decode()
    return Response(request.key, request.task, request.task_version, request.endpoint, storable, reason, finish)
