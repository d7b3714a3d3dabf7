"""The places in a gold passage that state the answer of a question, to be marked on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from fdarx_core.baseline.sentences import split_sentences

MarkKind = Literal["sentence", "words", "quoted"]
Mark = tuple[int, int, MarkKind]
"""Start and end of a place in characters, and its kind.

`sentence`: a whole sentence of the answer; `words`: words that a sentence of the answer shares with the passage, where
the passage does not have that sentence; `quoted`: what the judge quoted as evidence, apart from the other two.
"""

Place = tuple[int, int]
"""Start and end in characters."""

SHARED_WORDS = 4
"""The least number of words in a row that are marked where the passage does not have the whole sentence."""
_WORD = re.compile(r"\w+")
_ENDS = ".!?"


class MarkedText:
    """A text in which sentences are looked up without regard to white space, upper case and the final stop.

    It is prepared once and serves all questions that have it as a gold passage.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = [at for at, character in enumerate(text) if not character.isspace()]
        self._dense = _dense(text)
        self._words: list[tuple[str, int, int]] | None = None

    def find(self, sentence: str) -> list[Place]:
        """Return the places that have the sentence as whole words."""
        sought = _dense(sentence.strip().rstrip(_ENDS))
        return list(self._places(sought)) if sought else []

    def _places(self, sought: str) -> Iterator[Place]:
        found = self._dense.find(sought)
        while found >= 0:
            start, end = self._at[found], self._at[found + len(sought) - 1] + 1
            if self._is_whole(start, end):
                yield start, end
            found = self._dense.find(sought, found + len(sought))

    def _is_whole(self, start: int, end: int) -> bool:
        """Return whether no word, and no number, goes on before or after the place."""
        text = self.text
        before = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
        after = end < len(text) and text[end].isalnum() and text[end - 1].isalnum()
        longer = text[end - 1].isdigit() and bool(re.match(r"[.,]\d", text[end : end + 2]))
        return not (before or after or longer)

    def shared(self, sentence: str) -> list[Place]:
        """Return the places of `SHARED_WORDS` or more words in a row that the sentence has too."""
        words = _WORD.findall(sentence.lower())
        runs = {tuple(words[at : at + SHARED_WORDS]) for at in range(len(words) - SHARED_WORDS + 1)}
        if not runs:
            return []
        if self._words is None:
            self._words = [(one[0].lower(), one.start(), one.end()) for one in _WORD.finditer(self.text)]
        own = self._words
        names = [name for name, _, _ in own]
        last = len(own) - SHARED_WORDS + 1
        firsts = [at for at in range(last) if tuple(names[at : at + SHARED_WORDS]) in runs]
        return _joined((own[at][1], own[at + SHARED_WORDS - 1][2]) for at in firsts)

    def pieces(self, marks: Sequence[Mark]) -> list[tuple[str, str]]:
        """Return the whole text in pieces, each with the kind of its mark or ""."""
        pieces: list[tuple[str, str]] = []
        at = 0
        for start, end, kind in marks:
            pieces += [(self.text[at:start], ""), (self.text[start:end], kind)]
            at = end
        return [(text, kind) for text, kind in (*pieces, (self.text[at:], "")) if text]


def mark_passages(answer: str, quotations: Sequence[str], passages: Sequence[MarkedText]) -> list[list[Mark]]:
    """Return for each gold passage the marks of the answer and of the judge's quotations, in order, without overlap.

    The words of a sentence are marked only if no passage has the whole sentence.
    """
    split = split_sentences(answer)
    found = [[passage.find(sentence) for passage in passages] for sentence in split]
    missing = [sentence for sentence, places in zip(split, found, strict=True) if not any(places)]
    marked: list[list[Mark]] = []
    for at, passage in enumerate(passages):
        by_kind: dict[MarkKind, list[Place]] = {
            "sentence": [place for places in found for place in places[at]],
            "words": [place for sentence in missing for place in passage.shared(sentence)],
            "quoted": [place for quotation in quotations for place in passage.find(quotation)],
        }
        marks: list[Mark] = []
        for kind, places in by_kind.items():
            free = _without(_joined(sorted(places)), [(start, end) for start, end, _ in marks])
            kept = [(start, end, kind) for start, end in free if passage.text[start:end].strip()]
            marks = sorted([*marks, *kept])
        marked.append(marks)
    return marked


def _dense(text: str) -> str:
    """Return the text without white space, in lower case if that keeps its length."""
    dense = "".join(text.split())
    lower = dense.lower()
    return lower if len(lower) == len(dense) else dense


def _joined(places: Iterable[Place]) -> list[Place]:
    """Return places that are in order, with those that overlap as one."""
    joined: list[Place] = []
    for start, end in places:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _without(places: Sequence[Place], taken: Sequence[Place]) -> Iterator[Place]:
    """Yield the parts of the places that no taken place covers; both are in order."""
    for start, end in places:
        for low, high in taken:
            if low < end and start < high:
                if start < low:
                    yield start, low
                start = max(start, high)
        if start < end:
            yield start, end
