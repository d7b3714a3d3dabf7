"""What "but not" denies: "is used in adults but not in children" says that it is not used in children."""

from __future__ import annotations

import re

from fdarx_core.factuality.claims.lexicon import MODALS
from fdarx_core.factuality.claims.words import is_base, third_to_base

_PREPOSITION = re.compile(r"\b(?:in|on|at|for|with|against|by|to|from|during|after|before|of)\b", re.IGNORECASE)
_PARTICIPLE = re.compile(r"\s*(?:\w+ly\s+)?[^\W\d_]+(?:ed|en|wn)\b", re.IGNORECASE)
_FIRST = re.compile(r"\s*[^\W\d_]+\b")
_TO_BE = frozenset(["is", "are", "was", "were"])


def negated(verb: str, before: str, denied: str) -> str | None:
    """The verb denied, with what of the words `before` "but not" it keeps and what is `denied` left to add.

    None where it is not certain which words are replaced: they must follow the only preposition there is, or the verb.
    """
    denial = _denial(verb)
    kept = _kept(verb, before, denied)
    return None if denial is None or kept is None else f"{denial}{kept} "


def _denial(verb: str) -> str | None:
    if verb in _TO_BE or (verb in MODALS and "n" + "'t" not in verb and verb != "cannot"):
        return "cannot" if verb == "can" else f"{verb} not"
    if base := third_to_base(verb):
        return f"does not {base}"
    return f"do not {verb}" if is_base(verb) else None


def _kept(verb: str, before: str, denied: str) -> str | None:
    prepositions = list(_PREPOSITION.finditer(before))
    if own := _PREPOSITION.match(denied):
        same = [found for found in prepositions if found[0].lower() == own[0].lower()]
        return before[: same[0].start()].rstrip() if len(same) == 1 else None
    if len(prepositions) == 1:
        return before[: prepositions[0].end()]
    if prepositions or not before.strip():
        return None
    if verb in _TO_BE:
        participle = _PARTICIPLE.match(before)
        return None if participle else ""
    modal = _FIRST.match(before) if verb in MODALS else None
    return modal[0] if modal else ""
