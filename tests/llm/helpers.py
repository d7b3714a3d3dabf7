"""Helpers of these tests: a small task in a module of its own, and an event loop in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from fdarx_core.llm import Reply

SPELLING = """
name: spell_backwards
version: 3
purpose: Turn a word round.
slots:
  word: the word
  times: how often it is to be said
system: |
  You turn words round. Return {"text": "..."} and nothing else.
user: |
  Word: {{ word }}
  Say it {{ times }} times.
response: SpellReply
examples:
  - slots: {word: abc, times: 1}
    reply: {text: cba}
"""


class SpellReply(Reply):
    text: str


def spell(slots: Mapping[str, Any]) -> SpellReply:
    """Raises ValueError for an empty word, as a rule may."""
    if not slots["word"]:
        raise ValueError("no word to turn round")
    return SpellReply(text=" ".join([slots["word"][::-1]] * slots["times"]))


Result = TypeVar("Result")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Only for what waits on timers: sockets and threads would not be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """As asyncio.run, in virtual time."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
