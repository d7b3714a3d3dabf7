"""What a question asks, beside the document that it names and the words in which anything is asked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

from fdarx_core.evaluation.baseline.answering_words import asked_terms
from fdarx_core.filters.baseline.terms import terms

_WORD = re.compile(r"[^\W_]+(?:[-'’./][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_LEAD = re.compile(
    r"^(?:(?:with reference|according|referring|in relation) to|as (?:\w+ ){1,2}(?:in|by|per)|as per|based on|given|"
    r"in light of|in accordance with|taking into account|looking at|after reviewing|having read|delving into|"
    r"drawing from|when considering|upon checking|this question is about|guideline title:|from what)\b"
    r"[^?]*?(?:[,;:]\s+|\s{2,})(?=\W?[A-Z])",
    re.IGNORECASE,
)
_DEFINITION = re.compile(
    r"what (?:is|are|does|do) (?:you mean by |meant by |the definition of |the meaning of )?(?P<what>[^?,]{3,80}?)"
    r"(?: mean| stand for| refer to)?\?$",
    re.IGNORECASE,
)
_SHARE, _RUN = 0.6, 3
"""From which share of a title's words on, and from how many words in a row, a question names the title."""


def core(question: str, titles: Iterable[str] = ()) -> str:
    """The question without a title that it names and without what leads up to it ("According to …, what")."""
    for title in titles:
        question = _without(question, title)
    return _LEAD.sub("", question.strip(), count=1).strip() or question


def key_words(question: str) -> list[str]:
    """The words that tell what the question is about, as it writes them, in its order; all of them where none does."""
    _, telling = asked_terms(question, "")
    words = list(dict.fromkeys(_WORD.findall(question)))
    return [word for word in words if terms(word) & telling] or words


def defines(question: str) -> re.Pattern[str] | None:
    """What a sentence begins with that answers a question for what something is; None for any other question."""
    found = _DEFINITION.match(question.strip())
    if found is None:
        return None
    what = re.sub(r"^(?:an?|the)\s|[\"“”'’]", "", found["what"].strip(), flags=re.IGNORECASE)
    return re.compile(
        rf"(?:an?|the)?\W*{re.escape(what)}s?\W*(?:\([^()]*\)\s*)?(?:(?:is|are|means?|refers?|covers|consists?)\b|[-–—:])",
        re.IGNORECASE,
    )


def _without(question: str, title: str) -> str:
    """A question without its longest run of words in common with a title, where that is most of the title."""
    asked, named = list(_PART.finditer(question)), _PART.findall(title.lower())
    matcher = SequenceMatcher(None, [word[0].lower() for word in asked], named, autojunk=False)
    run = matcher.find_longest_match()
    if run.size < max(_RUN, _SHARE * len(named)):
        return question
    start, end = asked[run.a].start(), asked[run.a + run.size - 1].end()
    return f"{question[:start]}{question[end:]}"
