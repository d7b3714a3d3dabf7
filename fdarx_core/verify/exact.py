"""The engine without a model: it supports a statement that stands in the text word for word, and abstains elsewhere.

A statement is quoted where its sentences are consecutive ones of the text: whole sentences, items or table rows, or an
item behind the sentence that introduces its list, or a row behind the first row of its table. Case, white space and
punctuation are ignored, and cross-references that the text has and the statement leaves out. Numbers, units, signs and
question marks are compared as they are written. A part of a sentence is no quotation, because the rest may restrict or
deny it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from unicodedata import category

from fdarx_core.text.sentences import sentence_spans
from fdarx_core.verify.engine import UNDECIDED, Inference, RuleEngine, TextPair
from fdarx_core.verify.numbers import missing_number

Span = tuple[int, int]
Words = tuple[str, ...]
Place = tuple[int, int, int]
"""The number of a sentence in its text, and its start and end."""

_DASHES = "-‐‑‒–—−"
_TOKEN = re.compile(rf"(?<![\w.])\.\d+|\d+(?:[.,]\d+)*|[^\W\d_]+|(?P<minus>[{_DASHES}])(?=\.?\d)|[^\w\s]")
_COMPARED = frozenset("%/?&#@")
"""Punctuation that is compared, because it is a unit, a sign, or turns a statement into a question."""
_IGNORED = frozenset("®™©℠|`")
"""Symbols that are not compared."""
_REFERENCE = re.compile(
    r"\[\s*(?:also )?see\b[^\[\]]*\]|\(\s*(?:also |please )?(?:see|refer to)\b(?:[^()]|\([^()]*\))*\)"
    r"|[(\[]\s*\d{1,2}\.\d{1,2}(?:\s*[,-]\s*\d{1,2}(?:\.\d{1,2})?)*\s*[)\]]",
    re.IGNORECASE,
)
_CELLS = " | "
_BULLET = re.compile(r"[-•*·◦▪]\s|o\s(?=\S)")


def quoted_span(statement: str, text: str) -> Span | None:
    """Return the part of a text in which a statement stands word for word; None if it does not.

    Several sentences of a statement have to follow each other in the text: apart they may speak of something else.
    """
    lowered = text.lower()
    for written in dict.fromkeys((statement, " ".join(statement.split()))):
        first, *others = sentences_of(written) or [()]
        if not all(word in lowered for word in first if word.isalnum()):
            continue  # the text, which takes long to read, is read only if it has the words
        quotable = _quotable(text)
        for number, start, end in quotable.get(first, ()):
            for words in others:
                number += 1
                end = next((stop for at, _, stop in quotable.get(words, ()) if at == number), 0)
                if not end:
                    break
            if end:
                return start, end
    return None


def sentences_of(text: str) -> list[Words]:
    """Return the sentences of a text that have words, as the words and signs that are compared."""
    found = (words_of(text[start:end]) for start, end in _spans(text))
    return [words for words in found if any(word[0].isalnum() for word in words)]


def _spans(text: str) -> Iterator[Span]:
    """Yield the places of the sentences of a text; a row of a table is whole, whatever stops its cells have."""
    row_end = -1
    for start, end in sentence_spans(text, "label"):
        if start < row_end:
            continue
        line_end = text.find("\n", start)
        line_end = line_end if line_end >= 0 else len(text)
        if _CELLS in text[start:line_end] and (start == 0 or text[:start].rstrip(" ").endswith("\n")):
            row_end = line_end
            end = start + len(text[start:line_end].rstrip())
        yield start, end


def words_of(text: str) -> Words:
    """Return the words, numbers and signs of a text that quotations are compared by, in order."""
    return tuple(
        "-" if found["minus"] else found[0].lower()
        for found in _TOKEN.finditer(text)
        if found["minus"]
        or (token := found[0])[-1].isalnum()
        or token in _COMPARED
        or (category(token)[0] == "S" and token not in _IGNORED)
    )


@lru_cache(maxsize=1024)
def _quotable(text: str) -> Mapping[Words, list[Place]]:
    """Return each sentence, list item and table row of a text, with and without its cross-references, and its places.

    An item also follows the sentence that introduces its list, and a row the first row of its table; further sentences
    on the line of an item do not end the list.
    """
    found = defaultdict[Words, list[Place]](list)
    lead: tuple[Words, int] | None = None
    in_table, item_end = False, 0
    for number, (start, end) in enumerate(_spans(text)):
        bullet, is_row = _BULLET.match(text, start, end), _CELLS in text[start:end]
        if bullet:
            line_end = text.find("\n", start)
            item_end = line_end if line_end >= 0 else len(text)
        if is_row != in_table or not (is_row or start < item_end):
            lead = None
        first = bullet.end() if bullet else start
        for sentence in dict.fromkeys((text[first:end], _REFERENCE.sub(" ", text[first:end]))):
            words = words_of(sentence)
            found[words].append((number, start, end))
            if lead is not None and (bullet or is_row):
                found[lead[0] + words].append((number, lead[1], end))
        if lead is None and (is_row or text[end - 1] == ":"):
            lead = words_of(text[start:end]), start
        in_table = is_row
    return found


def _judge(pair: TextPair) -> Inference:
    """Support a statement that stands in the text word for word; the probabilities of all others are equal."""
    if place := quoted_span(pair.hypothesis, pair.premise):
        return Inference(1.0, 0.0, 0.0, *place, "the statement stands in the text word for word")
    missing = missing_number(pair)
    reason = f"number: {missing} is not in the text" if missing else "the text has the statement in no sentence"
    return Inference(UNDECIDED, UNDECIDED, UNDECIDED, 0, 0, reason)


ENGINE = RuleEngine("exact", _judge)
