"""A passage that is too long for a model, in windows: they end with sentences, overlap, and lose nothing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fdarx_core.filters.text import sentences

Span: TypeAlias = tuple[int, int]
"""The characters of a text that a token stands for: first, and the one after the last."""


@dataclass(frozen=True, slots=True)
class Window:
    """The characters `text[start:end]`, which are the text's tokens from `first` to before `last`."""

    start: int
    end: int
    first: int
    last: int


def windows(text: str, spans: Sequence[Span], room: int) -> list[Window]:
    """The text in windows of at most `room` tokens, in order; one, of the whole text, where that fits.

    Args:
        spans: where the text's tokens stand, in order.
        room: the most tokens of a window, 1 at least.

    A window ends with the last sentence that ends in its second half, else between words. The next begins with the
    first sentence that begins in the last quarter of the room, so that what two sentences say together is read
    together; else with the last that begins in the quarter before; else between words, a quarter of the room back.
    """
    if len(spans) <= room:
        return [Window(0, len(text), 0, len(spans))]
    cuts = _Cuts(_sentence_starts(text, spans), _word_starts(text, spans), len(spans), room)
    return [_window(text, spans, first, last) for first, last in cuts.bounds()]


@dataclass(frozen=True, slots=True)
class _Cuts:
    """`sentences` and `words`: the numbers of the tokens that begin one."""

    sentences: Sequence[int]
    words: Sequence[int]
    count: int
    room: int

    def bounds(self) -> Iterator[tuple[int, int]]:
        """First token, and the one after the last, of each window."""
        first, last = 0, 0
        while self.count - first > self.room:
            last = self._end(first, last)
            yield first, last
            first = self._beginning(first, last)
        yield first, self.count

    def _end(self, first: int, reached: int) -> int:
        """Beyond the end of the window before, which a long word after it could make the end of this one too."""
        least, most = max(first + self.room // 2, reached + 1), first + self.room
        for stops in (self.sentences, self.words):
            found = bisect_right(stops, most)
            if found and stops[found - 1] >= least:
                return stops[found - 1]
        return most

    def _beginning(self, first: int, last: int) -> int:
        quarter = self.room // 4
        near, far = last - quarter, max(last - 2 * quarter, first + max(1, quarter))
        found = bisect_left(self.sentences, near)
        if found < len(self.sentences) and self.sentences[found] < last:
            return self.sentences[found]
        if found and self.sentences[found - 1] >= far:
            return self.sentences[found - 1]
        word = bisect_right(self.words, near)
        return self.words[word - 1] if word and self.words[word - 1] >= far else near


def _sentence_starts(text: str, spans: Sequence[Span]) -> list[int]:
    ends, starts, at = [end for _, end in spans], [], 0
    for sentence in sentences(text):
        at = text.index(sentence, at)
        # some tokens include the space before their word: the first that reaches into the sentence begins it
        starts.append(bisect_right(ends, at))
        at += len(sentence)
    return starts


def _word_starts(text: str, spans: Sequence[Span]) -> list[int]:
    return [number for number, (start, _) in enumerate(spans) if not text[max(0, start - 1) : start + 1].isalnum()]


def _window(text: str, spans: Sequence[Span], first: int, last: int) -> Window:
    start, end = spans[first][0], spans[last - 1][1]
    shown = text[start:end]
    return Window(start + len(shown) - len(shown.lstrip()), start + len(shown.rstrip()), first, last)
