"""An item's context cut where evidence and its telling sentences begin and end; put together it is the context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fdarx_core.filters.baseline.terms import best_sentences, terms
from fdarx_core.records.review import ReviewItem

Piece = tuple[str, str]
"""A kind (plain, evidence or near) and characters of the context."""


def pieces_of(item: ReviewItem) -> list[Piece]:
    """All of the context, in order.

    evidence is what a judge was shown, letter for letter; near are those of its sentences that hold most of the
    answer's words and numbers (the reference's where an answer is graded, the question's where none is expected).
    They are found by rules, for rejected questions too: the judge's own quotation would tell what it decided.
    """
    near, pieces, at = _nearest(item), list[Piece](), 0
    for passage in item.evidence:
        start = item.context.find(passage, at)
        if start >= 0:
            pieces += [("plain", item.context[at:start]), *_marked(passage, near)]
            at = start + len(passage)
    pieces.append(("plain", item.context[at:]))
    return [(kind, text) for kind, text in pieces if text]


def _nearest(item: ReviewItem) -> list[str]:
    sought = item.question if item.type == "refusal" else item.gold or item.answer
    return best_sentences(terms(sought), "\n".join(item.evidence))


def _marked(passage: str, near: Sequence[str]) -> Iterator[Piece]:
    at = 0
    for start, sentence in sorted((passage.find(sentence), sentence) for sentence in near):
        if start >= at:
            yield "evidence", passage[at:start]
            yield "near", sentence
            at = start + len(sentence)
    yield "evidence", passage[at:]
