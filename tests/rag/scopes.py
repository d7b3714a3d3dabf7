"""Replies of models to the question what a question asks about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.rag.tasks import QUESTION_SCOPE

NAMED, SEVERAL = (f'{{"reason": "It does.", "scope": "{scope}"}}' for scope in ("named", "several"))


def asks_for_scope(body: Mapping[str, Any]) -> bool:
    """Return whether a request to a model is of the task `question_scope`."""
    return str(body["messages"][0]["content"]).strip() == QUESTION_SCOPE.prompt.system.strip()
