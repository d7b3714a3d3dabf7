"""Where the sentences of a block end: pysbd, and rules for what it gets wrong in drug labels.

pysbd breaks after "approx.", "max.", "Inj.", and misses breaks after ".]" and between sentences without a space. It
needs no weights, unlike spaCy's parser, whose rules-only sentencizer does worse on labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise

import pysbd
from pysbd.lang.english import English

_PYSBD = pysbd.Segmenter(language="en", clean=False)
_SHORT_FORMS = frozenset(English.Abbreviation.ABBREVIATIONS)
_CANDIDATE = re.compile(r"[.!?…][\"”’')\]*_]*\s+(?=\S)")
_PLAIN = re.compile(r"(?:(?<=[a-z]{3})|(?<=[a-zA-Z\d]\)))[.!?]\s+(?=[A-Z][a-z]+\s)")
_STUCK = re.compile(r"(?:(?<=[a-z]{3})|(?<=[a-zA-Z\d][)\]]))[.!?](?=[A-Z][a-z]+[\s,])")
"""A break without space. No web address, no file: there the next word is in lower case."""
_NOTED = re.compile(r"(?:(?<=[a-z]{3})|(?<=[a-z]\)))\.\d{1,3}(?:[,–-]\d{1,3})*\s+(?=[A-Z][a-z])")
"""A break after the number of a note, which lost its raised place: "lotions.2,9 Finally"."""
_NOTE = re.compile(r"(?<=[a-z)]\.)\d[\d,–-]*$")
_CLOSED = re.compile(r"[.!?][\"”’')\]*_]+\s+(?=[\"“'‘(\[*_]*[A-Z\d])")
_OUTSIDE = re.compile(r"[^\w\s.,;:!?'’%/-]|_|[^\x00-\x7f]")
_SPACE = re.compile(r"\s")
_NEVER = re.compile(
    r"(?:^|[\s(\[\"“/])(?:approx|e\.\s?g|i\.\s?e|vs|cf|viz|et al|ca|resp|Inj|Tab|Tabs|Cap|Caps|Syr|Susp|Soln|Dr|Mr|Mrs|"
    r"Ms|Prof|St|Fig|Figs|Ref|Refs|Sec|Eq|No|Nos|Vol|pp|spp|subsp|var|incl|excl|Dept|[A-Z])\.$"
)
"""Ends of no sentence, whatever follows. A single capital is an initial, or a genus."""
_SELDOM = re.compile(
    r"(?:^|[\s(\[\"“/\d])(?:max|min|no|nos|vol|wt|temp|conc|avg|hr|hrs|yr|yrs|mo|mos|wk|wks|sec|inj|tab|tabs|cap|caps|"
    r"soln|susp|oint|dil|sp|etc|oz|lb|lbs|tsp|tbsp|subcut|inf|prep|mg|mcg|kg|ml|mL|g|a\.m|p\.m|U\.S|"
    r"[a-z](?:\.[a-z]){1,3})\.$",
    re.IGNORECASE,
)
"""Ends of one only where a capital follows."""
_FULL_WORD = re.compile(r"[a-z]{5}[\"”’')\]*_]*\.[\"”’')\]*_]*$")
_OPENER = re.compile(r"(?:it|they|this|these|the|if|you|he|she|we|but|however|in|also|there|i|please|do)\b")
"""What tells a new sentence of a writer without capitals from the word after an abbreviation."""
_MARKS = (".", "!", "?", "…")
_OPEN, _CLOSE = "([{", ")]}"


def sentences_of(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The sentences of `text[start:end]`, in order, without space around."""
    breaks = [start, *(start + at for at in _breaks(text[start:end])), end]
    found = [_trimmed(text, first, last) for first, last in pairwise(breaks)]
    return [(first, last) for first, last in found if last > first]


@lru_cache(maxsize=256)
def _breaks(line: str) -> tuple[int, ...]:
    """Kept, since models that don't stop write the same paragraph again and again."""
    if not any(pattern.search(line) for pattern in (_CANDIDATE, _STUCK, _NOTED)):
        return ()
    depths = _depths(line)
    plain = [at for at in _plain(line) if not depths[at]]
    proposed = {*plain, *(found.end() for pattern in (_STUCK, _NOTED, _CLOSED) for found in pattern.finditer(line))}
    for start, end in pairwise([0, *plain, len(line)]):
        if _CANDIDATE.search(line, start, end):
            proposed |= {start + at for at in _by_pysbd(line[start:end])}
    return tuple(at for at in sorted(proposed) if not depths[at] and _ends(line, at))


def _plain(line: str) -> Iterator[int]:
    """Breaks on which any splitter agrees: between a plain word and a capital."""
    for found in _PLAIN.finditer(line):
        if line[max(0, found.start() - 20) : found.start()].rsplit(None, 1)[-1].lower() not in _SHORT_FORMS:
            yield found.end()


def _by_pysbd(piece: str) -> Iterator[int]:
    """Where pysbd begins sentences in a piece between plain breaks: it takes the square of a long text's time.

    It is shown letters, digits and plain punctuation alone, one for one: other signs are marks of its own rules, or of
    regular expressions that it builds from the text. Its `segment` finds what it cut by one more of these a sentence.
    """
    shown = _SPACE.sub(" ", _OUTSIDE.sub("X", piece))
    at = 0
    for sentence in _PYSBD.processor(shown).process():
        found = shown.find(sentence, at)
        if found >= 0:
            yield found
            at = found + len(sentence)


def _ends(line: str, at: int) -> bool:
    """Whether a sentence ends before `at`."""
    before = line[max(0, at - 40) : at].rstrip()[-16:]
    bare = _NOTE.sub("", before).rstrip("\"”’')]*_")
    if not bare.endswith(_MARKS):
        return False
    if not bare.endswith("."):
        return True
    if _NEVER.search(before):
        return False
    begins = line[at : at + 40].lstrip().lstrip("\"“‘'([*_")
    if begins[:1].isupper():
        return True
    if _SELDOM.search(before):
        return False
    return not begins[:1].islower() or bool(_FULL_WORD.search(before) or _OPENER.match(begins))


def _depths(line: str) -> list[int]:
    """How many brackets are open before each character, and after the last; those that never close don't count."""
    opened, steps = list[int](), [0] * (len(line) + 2)
    for at, character in enumerate(line):
        if character in _OPEN:
            opened.append(at)
        elif character in _CLOSE and opened:
            steps[opened.pop() + 1] += 1
            steps[at + 1] -= 1
    return list(accumulate(steps))[:-1]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
