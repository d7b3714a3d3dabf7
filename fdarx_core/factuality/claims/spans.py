"""Which letters of an answer a claim is: without the marks, and the citations, at its ends."""

from __future__ import annotations

import re

from fdarx_core.factuality.claims.left_out import CITATION

_LEADING = re.compile(rf"(?:{CITATION.pattern}|[\s*_,;:…•|]|[.)\]](?=[\s.,;]))+", re.IGNORECASE)
_CITED_LAST = re.compile(rf"(?:{CITATION.pattern})+[\s.,;:*_]*$", re.IGNORECASE)
_LAST_JOINT = re.compile(r"[;,]\s+(?:and|or)\s*$", re.IGNORECASE)
_AROUND = " \t\r\n\v\f\x1c\x1d\x1e\x85\u00a0\u2028\u2029*_,;:|"


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """`start` and `end` without what a claim does not say; equal where nothing is left."""
    if leading := _LEADING.match(text, start, end):
        start = leading.end()
    piece = _LAST_JOINT.sub("", text[start:end]).rstrip(_AROUND)
    while cited := _CITED_LAST.search(piece):
        piece = piece[: cited.start()].rstrip(_AROUND)
    return start, start + len(piece)
