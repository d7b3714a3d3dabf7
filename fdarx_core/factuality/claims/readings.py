"""How a piece of an answer reads as a statement: one line without Markdown and without words that tie it to others."""

from __future__ import annotations

import re

_INTRO = re.compile(
    r"(?:(?:however|therefore|thus|hence|so|and|but|also|moreover|furthermore|additionally|in addition|besides|finally|"
    r"lastly|first(?:ly)?|second(?:ly)?|third(?:ly)?|in (?:conclusion|summary|short|general|fact|contrast|other words|"
    r"particular)|overall|as a result|consequently|nevertheless|nonetheless|conversely|similarly|likewise|instead|"
    r"meanwhile|otherwise|on the other hand|for (?:example|instance)|that said|that being said|of note|notably|"
    r"importantly|unfortunately|fortunately|generally speaking|bottom line|yes|no|actually|basically|note|"
    r"according to (?:the|this) (?:label|passages?|(?:provided |given )?(?:context|information|text|document)))"
    r"\s*[,:–—]\s+"
    r"|(?:it(?:['’]s| is) (?:also )?(?:important|worth|essential|good) (?:to note|noting|to remember|to know|"
    r"to understand|"
    r"to be aware)|(?:please )?(?:note|remember|be aware)|(?:please )?keep in mind) that\s+"
    r"|(?:yes|no)[.!]\s+)+",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(r"\*+|(?<!\w)_+|_+(?!\w)|`+")
_SPACES = re.compile(r"\s+")
_LAST_JOINT = re.compile(r"[;,]\s+(?:and|or)\s*$", re.IGNORECASE)
_EDGES = " \t,;:–—-"


def intro_end(text: str) -> int:
    """Where what a sentence begins with to tie it to others ("However, ", "Note that ") ends; 0 where it has none."""
    found = _INTRO.match(text)
    return found.end() if found and found.end() < len(text) else 0


def reading_of(text: str) -> str:
    """The text as a statement by itself."""
    return capitalised(words_of(text))


def words_of(text: str) -> str:
    """The text as it stands within a statement."""
    line = _LAST_JOINT.sub("", _SPACES.sub(" ", _MARKDOWN.sub("", text))).strip(_EDGES)
    return line[intro_end(line) :]


def joined(*parts: str) -> str:
    """Pieces as one statement."""
    return reading_of(" ".join(part.strip() for part in parts if part.strip()))


def capitalised(text: str) -> str:
    """With a capital, unless the first word has one within ("pH")."""
    first = text.split(None, 1)[:1]
    return text[:1].upper() + text[1:] if first and first[0].islower() else text
