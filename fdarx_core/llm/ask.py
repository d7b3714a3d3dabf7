"""The one way to ask."""

from __future__ import annotations

from collections.abc import Sequence

from fdarx_core.llm.endpoints import TRANSIENT, Endpoint, response_to
from fdarx_core.llm.store import ResponseStore
from fdarx_core.records import Request, Response


def ask(requests: Sequence[Request], endpoint: Endpoint, store: ResponseStore | None) -> list[Response]:
    """One response a request, in the order of the requests.

    What the store has is read back; the rest is asked, once for each distinct key, and stored. A request that the
    endpoint leaves unanswered gets the reason transient_unanswered. Raises ValueError for another endpoint's request.
    """
    for request in requests:
        if request.endpoint != endpoint.name:
            raise ValueError(f"request {request.key} is for endpoint {request.endpoint}, not for {endpoint.name}")
    known = store.get([request.key for request in requests]) if store else {}
    open_requests = {request.key: request for request in requests if request.key not in known}
    if open_requests:
        answers = endpoint.answer(list(open_requests.values()))
        fresh = {answer.key: answer for answer in answers if answer.key in open_requests}
        if store:
            store.put(fresh.values())
        known |= fresh
    return [known.get(request.key) or response_to(request, "", f"{TRANSIENT}unanswered") for request in requests]
