"""Checks whether a sentence has a verb, and whether it can be read without other sentences."""

from __future__ import annotations

import re
from functools import partial

from fdarx_core.text.tokens import pattern, vocabulary

_pattern = partial(pattern, file="statements.yaml")
# Matched against lower case, which spares the regular expressions their slow case-blind search.
_POINTING_START = _pattern("pointing_start")
_POINTING = _pattern("pointing")
_VERB = _pattern("verb")
_IMPERATIVE = _pattern("imperative")
_WRECKED = _pattern("wrecked")
_LETTERS = re.compile(r"[a-z]+")
_POINTERS = frozenset(vocabulary(name="statements.yaml")["pointers"].split())


def has_verb(lowered: str) -> bool:
    """Return whether a sentence in lower case has a finite verb."""
    return bool(_VERB.search(lowered))


def speaks_for_itself(lowered: str) -> bool:
    """Return whether a sentence in lower case has a verb, and refers to no other sentence, table or figure."""
    if not (_VERB.search(lowered) or _IMPERATIVE.match(lowered)):
        return False
    if _POINTING_START.match(lowered) or _WRECKED.search(lowered):
        return False
    return _POINTERS.isdisjoint(_LETTERS.findall(lowered)) or not _POINTING.search(lowered)
