"""Blocks of one section composed into passages: whole units of sense, neither fragments nor walls of text."""

from __future__ import annotations

import re

from fdarx_core.labels.blocks import Block

MIN_WORDS = 20
MAX_WORDS = 220

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z0-9(\[•])")


def compose(blocks: list[Block]) -> list[str]:
    """Passage texts of one section, one block a line.

    A passage ends before a heading, or where the next block would take it past `MAX_WORDS`; a block longer than that
    is cut between sentences. Fragments under `MIN_WORDS` join their neighbours; only a section that is shorter
    altogether gives a shorter passage. Source: FDARxBench §B.1.
    """
    passages: list[str] = []
    current: list[str] = []
    words = 0
    for block in blocks:
        pieces = [block] if block.words <= MAX_WORDS else _cut(block)
        for piece in pieces:
            if words >= MIN_WORDS and (piece.heading or words + piece.words > MAX_WORDS):
                passages.append("\n".join(current))
                current, words = [], 0
            current.append(piece.text)
            words += piece.words
    if current:
        tail = "\n".join(current)
        if words < MIN_WORDS and passages:
            passages[-1] += "\n" + tail
        else:
            passages.append(tail)
    return passages


def _cut(block: Block) -> list[Block]:
    """A long block between its sentences, into pieces of at most `MAX_WORDS` where its sentences allow it."""
    pieces: list[str] = []
    for sentence in _SENTENCE_END.split(block.text):
        if pieces and pieces[-1].count(" ") + sentence.count(" ") + 2 <= MAX_WORDS:
            pieces[-1] += " " + sentence
        else:
            pieces.append(sentence)
    return [Block(piece, False, piece.count(" ") + 1) for piece in pieces]
