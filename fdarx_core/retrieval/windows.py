"""Windows of a text: pieces of at most so many tokens, which overlap and end between sentences or words.

Encoders, rerankers and NLI models read a few hundred tokens; a longer text is read window by window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fdarx_core.text.sentences import split_sentences

Span: TypeAlias = tuple[int, int]
"""The characters that a token stands for: start and end."""


@dataclass(frozen=True, slots=True)
class Window:
    """The characters `text[start:end]`, which are the text's tokens from `first` to before `last`."""

    start: int
    end: int
    first: int
    last: int


def windows(text: str, spans: Sequence[Span], room: int) -> list[Window]:
    """Cut a text into windows of at most `room` tokens, in order; one window where the whole text fits.

    A window ends with the last sentence that ends in its second half, else between words. The next one begins with the
    first sentence that begins in the last quarter of the room, so that the model reads two sentences together that
    belong together; else with the last sentence that begins in the quarter before; else between words, a quarter of
    the room back.

    Args:
        text: the text.
        spans: where the text's tokens stand, in order.
        room: the most tokens of a window, at least 1.
    """
    if len(spans) <= room:
        return [Window(0, len(text), 0, len(spans))]
    ends, sentences, at = [end for _, end in spans], list[int](), 0
    for sentence in split_sentences(text):
        at = text.index(sentence, at)
        # some tokens include the space before their word: the first that reaches into the sentence begins it
        sentences.append(bisect_right(ends, at))
        at += len(sentence)
    words = [number for number, (start, _) in enumerate(spans) if not text[max(0, start - 1) : start + 1].isalnum()]
    found: list[Window] = []
    first = last = 0
    while len(spans) - first > room:
        last = _window_end(sentences, words, first, last, room)
        found.append(_window(text, spans, first, last))
        first = _next_start(sentences, words, first, last, room)
    return [*found, _window(text, spans, first, len(spans))]


def _window_end(sentences: Sequence[int], words: Sequence[int], first: int, reached: int, room: int) -> int:
    """Return the token after a window, which lies beyond the end of the window before."""
    least, most = max(first + room // 2, reached + 1), first + room
    for stops in (sentences, words):
        found = bisect_right(stops, most)
        if found and stops[found - 1] >= least:
            return stops[found - 1]
    return most


def _next_start(sentences: Sequence[int], words: Sequence[int], first: int, last: int, room: int) -> int:
    """Return the first token of the window after the one from `first` to `last`."""
    quarter = room // 4
    near, far = last - quarter, max(last - 2 * quarter, first + max(1, quarter))
    found = bisect_left(sentences, near)
    if found < len(sentences) and sentences[found] < last:
        return sentences[found]
    if found and sentences[found - 1] >= far:
        return sentences[found - 1]
    word = bisect_right(words, near)
    return words[word - 1] if word and words[word - 1] >= far else near


def _window(text: str, spans: Sequence[Span], first: int, last: int) -> Window:
    start, end = spans[first][0], spans[last - 1][1]
    shown = text[start:end]
    return Window(start + len(shown) - len(shown.lstrip()), start + len(shown.rstrip()), first, last)
