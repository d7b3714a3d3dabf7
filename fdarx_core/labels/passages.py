"""Blocks of one section composed into passages: whole units of sense, neither fragments nor walls of text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fdarx_core.labels.blocks import Block

MIN_WORDS = 20
MAX_WORDS = 220
LONGEST_SENTENCE = 300

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z0-9(\[•])")


def compose(blocks: list[Block]) -> list[str]:
    """Passage texts of one section, one block a line.

    A passage ends before a heading, or where the next block would take it past `MAX_WORDS`; a block longer than that
    is cut between sentences. Fragments under `MIN_WORDS` join their neighbours; only a section that is shorter
    altogether gives a shorter passage. Source: FDARxBench §B.1.
    """
    passages: list[str] = []
    current: list[str] = []
    held = 0
    for block in blocks:
        for text, heading, words in (block,) if block[2] <= MAX_WORDS else _cut(block[0]):
            if held >= MIN_WORDS and (heading or held + words > MAX_WORDS):
                passages.append("\n".join(current))
                current, held = [], 0
            current.append(text)
            held += words
    if current:
        tail = "\n".join(current)
        if held < MIN_WORDS and passages:
            passages[-1] += "\n" + tail
        else:
            passages.append(tail)
    return passages


def _cut(text: str) -> list[Block]:
    """A long block between its sentences, into pieces of at most `MAX_WORDS` where they allow it."""
    pieces: list[str] = []
    for sentence in (piece for part in _SENTENCE_END.split(text) for piece in _bounded(part)):
        if pieces and pieces[-1].count(" ") + sentence.count(" ") + 2 <= MAX_WORDS:
            pieces[-1] += " " + sentence
        else:
            pieces.append(sentence)
    return [(piece, False, piece.count(" ") + 1) for piece in pieces]


def _bounded(sentence: str) -> Iterator[str]:
    """A sentence as it is, or what passes for one in a wall of text, cut after a comma where there is one."""
    words = sentence.split(" ")
    while len(words) > LONGEST_SENTENCE:
        commas = (place for place in range(MAX_WORDS, MAX_WORDS // 2, -1) if words[place - 1].endswith((",", ":", ")")))
        end = next(commas, MAX_WORDS)
        yield " ".join(words[:end])
        words = words[end:]
    yield " ".join(words)
