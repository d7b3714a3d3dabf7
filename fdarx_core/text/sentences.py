"""Sentence boundaries in labels, documents and model answers.

One function, three splitters: `plain` (a stop, then a capital or a digit), `label` (the same, but known abbreviations
and initials do not end a sentence) and `answer` (pysbd, with corrections for drug text).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import Any, Literal

from fdarx_core.text.tokens import pattern, word_set

Splitter = Literal["plain", "label", "answer"]
Span = tuple[int, int]

_PLAIN_BREAK = re.compile(r"(?<=[.!?])[\"”')\]]*\s+(?=[\"“(\[•]*[A-Z0-9])")
_LABEL_BREAK = re.compile(r"[.!?][\"”')\]]*\s+(?=[\"“(\[]?[A-Z0-9])")
_LABEL_ABBREVIATIONS = word_set("label_abbreviations")
_CANDIDATE = re.compile(r"[.!?…][\"”’')\]*_]*\s+(?=\S)")
_PLAIN = re.compile(r"(?:(?<=[a-z]{3})|(?<=[a-zA-Z\d]\)))[.!?]\s+(?=[A-Z][a-z]+\s)")
# A break without a space after the stop. In web and file names the next word is in lower case.
_STUCK = re.compile(r"(?:(?<=[a-z]{3})|(?<=[a-zA-Z\d][)\]]))[.!?](?=[A-Z][a-z]+[\s,])")
# A break after a footnote number that is no longer superscript: "lotions.2,9 Finally".
_NOTED = re.compile(r"(?:(?<=[a-z]{3})|(?<=[a-z]\)))\.\d{1,3}(?:[,–-]\d{1,3})*\s+(?=[A-Z][a-z])")
_NOTE = re.compile(r"(?<=[a-z)]\.)\d[\d,–-]*$")
_CLOSED = re.compile(r"[.!?][\"”’')\]*_]+\s+(?=[\"“'‘(\[*_]*[A-Z\d])")
_OUTSIDE = re.compile(r"[^\w\s.,;:!?'’%/-]|_|[^\x00-\x7f]")
_SPACE = re.compile(r"\s")
# Abbreviations that never end a sentence. A single capital is an initial or a genus.
_NEVER = pattern("never_an_end")
# Abbreviations that end a sentence only before a capital.
_SELDOM = pattern("seldom_an_end", re.I)
_FULL_WORD = re.compile(r"[a-z]{5}[\"”’')\]*_]*\.[\"”’')\]*_]*$")
# Words that open a sentence in text without capitals.
_OPENER = pattern("openers")
_MARKS = (".", "!", "?", "…")
_OPEN, _CLOSE = "([{", ")]}"


LIST_ITEM = re.compile(r"(?:[-•*o]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{2,5})[.)]) ")
"""How the line of a list item begins in passages of labels: with a bullet, or with the mark of an ordered list."""


_WIDTHS = range(50, 141)
"""The lengths of the longest line of a paragraph that is wrapped at a width."""


def join_wrapped_lines(text: str) -> str:
    """Return a text with a space in place of each line break inside a sentence, so that all places stay the same.

    A line goes on in the next one where that begins with a small letter, or would not have fitted its first word into
    the width of the paragraph. Headings, list items and rows of tables are lines of their own.
    """
    paragraphs = text.split("\n\n")
    return "\n\n".join(map(_join_paragraph, paragraphs))


def _join_paragraph(text: str) -> str:
    lines = text.split("\n")
    width = max(map(len, lines))
    joined = lines[0]
    for line, following in pairwise(lines):
        words = following.split(None, 1)
        separate = not line.strip() or not words or " | " in line + following or LIST_ITEM.match(following.lstrip())
        full = width in _WIDTHS and len(line.rstrip()) + 1 + len(words[0] if words else "") > width
        wrapped = not separate and (following.lstrip()[:1].islower() or (full and not line.rstrip().endswith(_MARKS)))
        joined += (" " if wrapped else "\n") + following
    return joined


def split_sentences(text: str, splitter: Splitter = "plain") -> list[str]:
    """Return the sentences of a text, unchanged; see `sentence_spans`."""
    return [text[start:end] for start, end in sentence_spans(text, splitter)]


def sentence_spans(text: str, splitter: Splitter = "plain") -> list[Span]:
    """Return the (start, end) of each sentence, without surrounding white space.

    With `plain` and `label` a line break ends a sentence, so a heading or a table row is a sentence of its own; the
    number of a list item belongs to the sentence after it. With `answer` a line break ends no sentence, since lines of
    model answers are wrapped.
    """
    if splitter == "answer":
        breaks = [0, *_answer_breaks(text), len(text)]
        found = [_trimmed(text, start, end) for start, end in pairwise(breaks)]
        return [(start, end) for start, end in found if end > start]
    split = _plain_spans if splitter == "plain" else _label_spans
    spans: list[Span] = []
    at = 0
    for line in text.split("\n"):
        start, end = _trimmed(text, at, at + len(line))
        if end > start:
            mark = LIST_ITEM.match(text, start, end)
            spans += split(text, start, end, mark.end() if mark else start)
        at += len(line) + 1
    return spans


def _plain_spans(text: str, start: int, end: int, after_mark: int) -> Iterator[Span]:
    for found in _PLAIN_BREAK.finditer(text, after_mark, end):
        if found.start() > start:
            yield start, found.start()
        start = found.end()
    if end > start:
        yield start, end


def _label_spans(text: str, start: int, end: int, after_mark: int) -> Iterator[Span]:
    for found in _LABEL_BREAK.finditer(text, after_mark, end):
        before = text[start : found.start()].rsplit(None, 1)[-1:] or [""]
        word = before[0].lstrip("(").lower()
        abbreviated = word in _LABEL_ABBREVIATIONS or (len(word) == 1 and word.isalpha())
        if text[found.start()] != "." or not abbreviated:
            yield _trimmed(text, start, found.end())
            start = found.end()
    if end > start:
        yield start, end


def _trimmed(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


@lru_cache(maxsize=256)
def _answer_breaks(block: str) -> tuple[int, ...]:
    """Return where sentences of a block begin. Cached: models that do not stop repeat the same paragraph."""
    if not any(pattern.search(block) for pattern in (_CANDIDATE, _STUCK, _NOTED)):
        return ()
    depths = _bracket_depths(block)
    safe = [at for at in _safe_breaks(block) if not depths[at]]
    proposed = {*safe, *(found.end() for pattern in (_STUCK, _NOTED, _CLOSED) for found in pattern.finditer(block))}
    for start, end in pairwise([0, *safe, len(block)]):
        if _CANDIDATE.search(block, start, end):
            proposed |= {start + at for at in _pysbd_breaks(block[start:end])}
    return tuple(at for at in sorted(proposed) if not depths[at] and _ends_sentence(block, at))


@cache
def _pysbd() -> tuple[Any, frozenset[str]]:
    import pysbd
    from pysbd.lang.english import English

    return pysbd.Segmenter(language="en", clean=False), frozenset(English.Abbreviation.ABBREVIATIONS)


def _safe_breaks(block: str) -> Iterator[int]:
    """Yield breaks between a plain word and a capital, on which any splitter agrees."""
    _, abbreviations = _pysbd()
    for found in _PLAIN.finditer(block):
        if block[max(0, found.start() - 20) : found.start()].rsplit(None, 1)[-1].lower() not in abbreviations:
            yield found.end()


def _pysbd_breaks(piece: str) -> Iterator[int]:
    """Yield where pysbd begins sentences in a piece between safe breaks; its time grows with the square of the length.

    Other signs than letters, digits and plain punctuation are masked one for one, because pysbd uses them as marks of
    its own and builds regular expressions from the text.
    """
    masked = _SPACE.sub(" ", _OUTSIDE.sub("X", piece))
    at = 0
    for sentence in _pysbd()[0].processor(masked).process():
        found = masked.find(sentence, at)
        if found >= 0:
            yield found
            at = found + len(sentence)


def _ends_sentence(block: str, at: int) -> bool:
    """Return whether a sentence ends before position `at`."""
    before = block[max(0, at - 40) : at].rstrip()[-16:]
    bare = _NOTE.sub("", before).rstrip("\"”’')]*_")
    if not bare.endswith(_MARKS):
        return False
    if not bare.endswith("."):
        return True
    if _NEVER.search(before):
        return False
    following = block[at : at + 40].lstrip().lstrip("\"“‘'([*_")
    if following[:1].isupper():
        return True
    if _SELDOM.search(before):
        return False
    return not following[:1].islower() or bool(_FULL_WORD.search(before) or _OPENER.match(following))


def _bracket_depths(block: str) -> list[int]:
    """Return how many brackets are open before each character, and after the last; unclosed ones do not count."""
    opened, steps = list[int](), [0] * (len(block) + 2)
    for at, character in enumerate(block):
        if character in _OPEN:
            opened.append(at)
        elif character in _CLOSE and opened:
            steps[opened.pop() + 1] += 1
            steps[at + 1] -= 1
    return list(accumulate(steps))[:-1]
