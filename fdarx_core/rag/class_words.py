"""Whether a label says that its drug belongs to a class: "ibuprofen is a nonsteroidal anti-inflammatory drug".

Labels name classes of other drugs as well, so that the name of the drug and that of the class must stand in one of the
patterns of Hearst 1992: X is a …, X, a …, … including X, … such as X, or the class before the name ("the NSAID X").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SHORTEST_NAME = 3
_BETWEEN = r"[\s\-/]*(?:\([^()]{1,30}\)\s*)?"
"""What stands between two words of a class: "anti-inflammatory", "cardiac (or digitalis) glycosides"."""


def class_expression(phrases: Iterable[Sequence[str]]) -> str:
    """Return an expression (RE2) for names of a class, each a phrase of words, in singular and plural."""
    forms = (_BETWEEN.join(map(re.escape, (*words[:-1], words[-1].removesuffix("s")))) for words in phrases)
    return rf"(?:{'|'.join(f'{form}s?' for form in dict.fromkeys(forms))})"


def membership_expression(names: Iterable[str], class_names: str) -> str:
    """Return an expression (RE2) for texts that say that a drug belongs to a class.

    Args:
        names: the names of the drug.
        class_names: an expression for the names of the class.
    """
    told = {name.strip() for name in names if len(name.strip()) >= _SHORTEST_NAME}
    own = "|".join(r"\s+".join(map(re.escape, name.split())) for name in sorted(told, key=len, reverse=True))
    is_a = rf"\b(?:{own})\b[^.;:]{{0,60}}?\b(?:is|are)\s+(?:an?|the|one|members?)\b[^.;:]{{0,120}}?\b{class_names}\b"
    apposed = rf"\b(?:{own})\b,\s+an?\s+[^.;:,]{{0,40}}?\b{class_names}\b"
    including = (
        rf"\b{class_names}\b[),]*\s*\(?(?:including|such\s+as|like|containing|e\.g\.,?)\s+(?:the\s+)?(?:{own})\b"
    )
    before = rf"\b{class_names}\b\)?\s+(?:agent,?\s+)?(?:{own})\b"
    return rf"(?is)(?:{is_a})|(?:{apposed})|(?:{including})|(?:{before})"
