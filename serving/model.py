"""Serve deployment: whoever is asked, by role; requests to a server share connections and limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from fdarx_core.llm import Baseline, ModelConfig
from fdarx_core.rag.tasks import RAG_TASKS
from fdarx_core.rag.tools import Role
from fdarx_core.records import Response
from serving.voice import Rules, Server, Voice


class Model:
    """Asks. Limits (`max_in_flight`, rates) hold for each replica: with n of them, give each an n-th."""

    def __init__(self, models: Sequence[Mapping[str, Any]], roles: Mapping[Role, str]) -> None:
        """`models` are fields of `ModelConfig`; `roles` name one of them, or `baseline`. Raises ValueError where a
        model's key is not in this replica's environment."""
        configs = [ModelConfig.model_validate(fields) for fields in models]
        voices: dict[str, Voice] = {one.name: Server(one) for one in configs if one.name in roles.values()}
        voices[Baseline.name] = Rules()
        self._voices = {role: voices[name] for role, name in roles.items()}

    async def ask(self, role: Role, asks: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Response]:
        """One response an ask, which is a task's name and its slots; where asking failed, its reason says how."""
        voice = self._voices[role]
        return list(await asyncio.gather(*(voice.ask((RAG_TASKS[name], slots)) for name, slots in asks)))

    async def stream(self, role: Role, task: str, slots: Mapping[str, Any]) -> AsyncGenerator[str | Response, None]:
        """The reply's text piece by piece, and at the end the whole Response."""
        async for piece in self._voices[role].stream((RAG_TASKS[task], slots)):
            yield piece
