"""Asking an S3 server again for what failed for now."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from botocore.exceptions import ClientError

from fdarx_core.storage.patience import LINK
from fdarx_core.storage.s3_client import client
from fdarx_core.storage.s3_errors import REPORTED, asked_to_wait, expired, explained, passes

_SHORTEST_S, _LONGEST_S = 0.1, 4.0

T = TypeVar("T")


def patiently(doing: str, address: str, request: Callable[[], T]) -> T:
    """What the request gives, repeated while it fails for now. Raises StorageError: `cannot DOING ADDRESS: …`."""
    began, attempt, renewed = time.monotonic(), 0, False
    while True:
        try:
            given = request()
        except REPORTED as error:
            if expired(error) and not renewed:  # whoever refreshes them may have done so since the client was made
                client.cache_clear()
                renewed = True
                continue
            attempt += 1
            _wait_after(error, began, attempt, f"{doing} {address}")
        else:
            LINK.heard()
            return given


def _wait_after(error: Exception, began: float, attempt: int, what: str) -> None:
    """Returns when the next try is due. Raises where none is."""
    if not passes(error):
        LINK.reached = LINK.reached or isinstance(error, ClientError)
        raise explained(what, error) from error
    LINK.failed(began)
    left = LINK.left(began)
    if left <= 0:
        tried = time.monotonic() - began if LINK.reached else 0.0
        raise explained(what, error, tried) from error
    time.sleep(min(left, max(_pause(attempt), asked_to_wait(error))))


def _pause(attempt: int) -> float:
    """Seconds, longer from time to time and never the same for all who were refused at once."""
    return min(_LONGEST_S, _SHORTEST_S * 2.0 ** min(attempt, 10)) * random.uniform(0.5, 1.0)
