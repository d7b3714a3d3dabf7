"""How the filters read text: words, names and how much of one text stands in another."""

from __future__ import annotations

import re
from functools import lru_cache

_MARKS = re.compile(r"[®™©℠\u00ad\u200b-\u200d\ufeff]")
_POSSESSIVE = re.compile(r"['’ʼ]s\b")
_NOT_WORD = re.compile(r"[\W_]+")
_TOKEN = re.compile(r"[^\W_]+(?:[.,]\d+)*")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”')\]]*\s+(?=[\"“(\[•]*[A-Z0-9])")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_THOUSANDS = re.compile(r",(?=\d{3}(?:\D|$))")
_LITTLE = """a an the of in on at to for from by with and or as is are was were be been being do does did has have had
can could may might must shall should will would it its they their them this that these those there which who whom whose
what when where why how if than then so such any all not no"""
_LITTLE_WORDS = frozenset(_LITTLE.split())


def plain(text: str) -> str:
    """Lower case, words parted by one space and with one around, no signs: "Zalvo®-XR's dose" is " zalvo xr dose "."""
    return f" {_NOT_WORD.sub(' ', _POSSESSIVE.sub('', _MARKS.sub('', text)).lower()).strip()} "


def names(text: str, name: str) -> bool:
    """Whether the text has the name, whole words, ignoring case and punctuation. A name without letters never is."""
    wanted = plain(name)
    return any(char.isalnum() for char in wanted) and wanted in plain(text)


def tokens(text: str) -> list[str]:
    """Lower-case words and numbers in order; a plural's s is taken off, "2.5" and "CYP3A4" stay whole."""
    return [_singular(token) for token in _TOKEN.findall(_MARKS.sub("", text).lower())]


@lru_cache(maxsize=1024)
def content_words(text: str) -> frozenset[str]:
    """The distinct tokens that carry meaning; all of them where none does."""
    found = frozenset(tokens(text))
    return found - _LITTLE_WORDS or found


def overlap(answer: str, context: str) -> float:
    """The share of the answer's content words that stand in the context, 0 to 1; 0 for an answer without words."""
    said = content_words(answer)
    return len(said & content_words(context)) / len(said) if said else 0.0


def stands_in(entity: str, text: str) -> bool:
    """Whether the text has the entity: its words in sequence, in singular or plural, ignoring case and punctuation."""
    parts = [part if entity.isupper() else _singular(part) for part in plain(entity).split()]
    lowered = _lower(text)
    # A label's text is long, and its absent entities many: most are settled by their longest word alone.
    if not parts or max(parts, key=len) not in lowered:
        return False
    return (
        re.search(r"(?<!\w)" + r"(?:['’]?s)?[\W_]+".join(map(re.escape, parts)) + r"(?:e?s)?(?!\w)", lowered)
        is not None
    )


@lru_cache(maxsize=4)
def _lower(text: str) -> str:
    return text.lower()


def _singular(token: str) -> str:
    return token[:-1] if len(token) > 3 and token.endswith("s") and not token.endswith("ss") else token


def sentences(text: str) -> list[str]:
    """The sentences of each line, letter for letter; a line without an end mark (a heading, a table row) is one."""
    return [piece for line in text.split("\n") for piece in _SENTENCE_END.split(line.strip()) if piece]


def numbers(text: str) -> frozenset[str]:
    """The distinct numbers, thousands separators taken out: "1,500 mg in 2.5 mL" gives 1500 and 2.5."""
    return frozenset(_THOUSANDS.sub("", found) for found in _NUMBER.findall(text))
