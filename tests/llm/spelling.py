"""A small task of the tests' own, in a module of its own: a task travels only with a class that can be imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
