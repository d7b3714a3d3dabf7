"""A small task of the tests' own, in every way a real one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fdarx_core.llm import Baseline, Prompt, Reply, Task

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


@pytest.fixture(scope="session")
def spelling() -> str:
    return SPELLING


@pytest.fixture(scope="session")
def task() -> Task[SpellReply]:
    made = Task(Prompt.from_yaml(SPELLING, "prompts/spell_backwards.yaml"), SpellReply, spell)
    made.check()
    return made


@pytest.fixture(scope="session")
def baseline(task: Task[SpellReply]) -> Baseline:
    return Baseline({task.name: task}, rules="r1")
