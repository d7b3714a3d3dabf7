"""Claims of an answer: by a language model, which quotes the answer and words each statement, or its sentences.

Source: FAS §3.2, atomic claims.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from fdarx_core.llm import Reply, Task, Unparsable
from fdarx_core.records import CheckedAnswer, Claim, Response, content_id
from fdarx_core.text.refusals import declines
from fdarx_core.text.sentences import LIST_ITEM, sentence_spans

Filled = Annotated[str, Field(min_length=1, max_length=3000)]


class QuotedClaim(Reply):
    """A piece of the answer, letter for letter, and what it claims."""

    quote: Filled
    claim: Filled


class ExtractClaimsReply(Reply):
    """In the answer's order; empty where it claims nothing."""

    claims: Annotated[list[QuotedClaim], Field(max_length=300)]


EXTRACT_CLAIMS = Task.load("extract_claims", ExtractClaimsReply)

_ALIKE = ("'’‘ʼ′`", '"“”„″', "-‐‑‒–—−")
_SAME = {sign: f"[{re.escape(group)}]" for group in _ALIKE for sign in group}
_CITATION = re.compile(r"\s*\[(?:PASSAGE_)?\d+(?:\s*[,;–-]\s*(?:PASSAGE_)?\d+)*\]")


_Span = tuple[int, int, str]
"""The start and end of a claim in the answer, and how it reads without context."""


def claims_of(answer: CheckedAnswer) -> list[Claim]:
    """Return the sentences of an answer, its claims where no model extracts them.

    An item of a list and a row of a table are sentences too, and `resolved` is the sentence without the mark of the
    item and without numbers of citations. A question is no claim, and a repeated sentence counts once. A refusal or a
    failed answer has none.
    """
    if answer.outcome in ("refused", "failed") or declines(answer.answer):
        return []
    found: dict[str, _Span] = {}
    for line in re.finditer(r".+", answer.answer):
        for start, end in sentence_spans(line[0], "answer"):
            mark = LIST_ITEM.match(line[0], start, end)
            start = mark.end() if mark else start
            resolved = " ".join(_CITATION.sub("", line[0][start:end]).split())
            if any(character.isalpha() for character in resolved) and not resolved.endswith("?"):
                found.setdefault(resolved.casefold(), (line.start() + start, line.start() + end, resolved))
    return _numbered(answer, found.values())


def claims_slots(answer: CheckedAnswer) -> dict[str, Any]:
    """Return the slots of the request for an answer's claims; `read_claims` reads the response."""
    return {"question": answer.question, "answer": answer.answer, "drug": answer.drug}


def read_claims(answer: CheckedAnswer, response: Response) -> list[Claim]:
    """Return the claims of a response, in the order of the answer; each `text` is taken from the answer.

    White space and the shapes of quotation marks, apostrophes and dashes are ignored. If a quote occurs several times,
    the first place after the claim before it is used. Raises Unparsable as `Task.parse` does, and with the reason
    quote_not_found if a quote is not in the answer, or overlapping_quotes if two quotes overlap.
    """
    taken = list[_Span]()
    for claim in EXTRACT_CLAIMS.parse(response).claims:
        places = [found.span() for found in quote_pattern(claim.quote).finditer(answer.answer)]
        if not places:
            raise Unparsable("quote_not_found", f"no part of the answer: {claim.quote[:120]!r}")
        free = [place for place in places if not any(place[0] < end and start < place[1] for start, end, _ in taken)]
        if not free:
            raise Unparsable("overlapping_quotes", f"shares letters with another quote: {claim.quote[:120]!r}")
        past = taken[-1][1] if taken else 0
        start, end = next((place for place in free if place[0] >= past), free[0])
        taken.append((start, end, claim.claim))
    return _numbered(answer, sorted(taken))


def quote_pattern(quote: str) -> re.Pattern[str]:
    """Return a pattern that finds a quotation, but not within a longer word or number.

    White space and the shapes of quotation marks, apostrophes and dashes are ignored. `quote` is not blank.
    """
    words = ("".join(_SAME.get(sign, re.escape(sign)) for sign in word) for word in quote.split())
    first = r"(?<![^\W_])(?<!\d[.,])" if quote[0].isalnum() else ""
    last = r"(?![^\W_]|[.,]\d)" if quote[-1].isalnum() else ""
    return re.compile(first + r"\s+".join(words) + last)


def _numbered(answer: CheckedAnswer, spans: Iterable[_Span]) -> list[Claim]:
    """Return spans, in order, as claims of the answer."""
    return [
        Claim(
            id=content_id("claim", answer.id, str(start), str(end)),
            answer_id=answer.id,
            number=number,
            start=start,
            end=end,
            text=answer.answer[start:end],
            resolved=resolved,
        )
        for number, (start, end, resolved) in enumerate(spans)
    ]
