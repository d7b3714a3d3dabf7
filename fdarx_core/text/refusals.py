"""Detection of refusals.

An answer is a refusal if one of its clauses declines and no clause answers. Each clause is classified as declining,
empty (it refers the reader elsewhere, or says why there is no answer) or an answer: "the label gives no dose for
children, but recommends 5 mg for adults" is an answer. Statements that labels make themselves, such as "is not
recommended", "have not been established" and "no data are available", are answers too.
"""

from __future__ import annotations

import re
from functools import partial

from fdarx_core.text.tokens import pattern

LABELS_SAY_NOTHING = "The labels at hand do not say."
"""The refusal of an answer whose contexts are all of labels."""
DOCUMENTS_SAY_NOTHING = "The documents at hand do not say."
"""The refusal that the prompt asks for, and that of an answer with other contexts."""

_pattern = partial(pattern, file="refusals.yaml")

_HINT = _pattern("hint", re.I)
_FIRST = _pattern("first", re.I)
_ALONE = _pattern("alone", re.I | re.M)
_DECLINES = _pattern("declines", re.I)
_EMPTY = _pattern("empty")
_CONCEDES = _pattern("concedes")
_CLAUSE_END = _pattern("clause_end")
_LEAD = _pattern("lead")
_LONGEST = 4000


def declines(answer: str) -> bool:
    """Return whether a reply, without its citations, is a refusal.

    NOT_ANSWERABLE at the start, or on a line or in a sentence of its own, is always a refusal, because the prompt asks
    for this verdict. Elsewhere it is one declining clause among others.
    """
    if not _HINT.search(answer):
        return False
    if _FIRST.match(answer) or _ALONE.search(answer):
        return True
    clauses = _CLAUSE_END.split(answer[:_LONGEST].lower())
    kinds = {clause_kind(clause) for clause in clauses if clause and clause.strip()}
    return "declines" in kinds and "answers" not in kinds


def clause_kind(clause: str) -> str:
    """Return the kind of a clause in lower case: "declines", "empty" or "answers"."""
    clause = _LEAD.sub("", clause).rstrip(" .,:;!?*_\"'")
    if _DECLINES.search(clause) and not _CONCEDES.match(clause):
        return "declines"
    return "empty" if not clause or _CONCEDES.match(clause) or _EMPTY.match(clause) else "answers"
