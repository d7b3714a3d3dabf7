"""Lead-ins that name a document before the question begins, as those of QA-RAG's published questions.

They can't be told from the question by signs alone: titles hold commas, and what parts them from the question is a
comma, two spaces or nothing. But several questions are written on one document, so its title is what they share.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

_OPENING = re.compile(
    r"(?:guideline title:|this question is about|according to(?: the)?|with reference to|referring to|after reviewing|"
    r"having read through|delving into|considering|from what i['’]ve read in|"
    r"(?:when considering|looking at|taking into account|upon checking|drawing from|based on|in light of|given) the "
    r"(?:\w+ )?(?:in|of|from)|when considering(?: the)?|in accordance with|as per(?: the details in)?|"
    r"as (?:stated|described|explained|outlined) in)\s+",
    re.IGNORECASE,
)
_PARTED = re.compile(r"\s+,\s+|\s{2,}")
_LEFT = " \t\r\n,:;"
_ALIKE = 24
"""Characters by which two titles are taken for the same."""
_LEAST_LEFT = 8
"""Characters that must be left for a question."""


def without_lead_ins(questions: Sequence[str]) -> list[str]:
    """The questions, in their order, each without its opening and the title that follows; others as they are."""
    after = {at: text[found.end() :] for at, text in enumerate(questions) if (found := _OPENING.match(text))}
    groups: dict[str, list[str]] = defaultdict(list)
    for text in after.values():
        groups[text[:_ALIKE].casefold()].append(text)
    titles = {key: _title(texts) for key, texts in groups.items()}
    return [
        _question(text, after[at], titles[after[at][:_ALIKE].casefold()]) if at in after else text
        for at, text in enumerate(questions)
    ]


def _title(texts: Sequence[str]) -> str:
    """What the texts begin with in common, up to where it is parted from the question; "" where one stands alone."""
    shared = _beginning(texts) if len(set(texts)) > 1 else ""
    if parted := _PARTED.search(shared):
        return shared[: parted.start()]
    within_a_word = any(text[len(shared) : len(shared) + 1].isalnum() for text in texts)
    return shared.rpartition(" ")[0] if within_a_word else shared


def _beginning(texts: Sequence[str]) -> str:
    """What all begin with: what the first and the last in order share, all others have too."""
    first, last = min(texts), max(texts)
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((at for at, (one, other) in pairs if one != other), min(len(first), len(last)))]


def _question(whole: str, after: str, title: str) -> str:
    """A title that stands alone ends at the first parting; without one the question stays whole."""
    parted = _PARTED.search(after)
    left = after[len(title) :] if len(title) >= _ALIKE else after[parted.end() :] if parted else ""
    left = left.lstrip(_LEFT)
    return left[:1].upper() + left[1:] if len(left) >= _LEAST_LEFT else whole
