"""Claims of an answer by a language model: a quote of the answer and a statement by itself. Source: FAS §3.2, atomic
claims."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from fdarx_core.baseline.claims import ClaimSpan, claims_of, numbered
from fdarx_core.llm import Reply, Task, Unparsable, source_digest
from fdarx_core.records import CheckedAnswer, Claim, Response
from fdarx_core.verify.language_model import JUDGE_CLAIM

Filled = Annotated[str, Field(min_length=1, max_length=3000)]


class QuotedClaim(Reply):
    """A piece of the answer, letter for letter, and what it claims."""

    quote: Filled
    claim: Filled


class ExtractClaimsReply(Reply):
    """In the answer's order; empty where it claims nothing."""

    claims: Annotated[list[QuotedClaim], Field(max_length=300)]


def by_rules(slots: Mapping[str, Any]) -> ExtractClaimsReply:
    """Return the claims that the rules find."""
    question, answer, drug = (str(slots[name]) for name in ("question", "answer", "drug"))
    found = claims_of(CheckedAnswer("", "", question, answer, "", drug=drug))
    return ExtractClaimsReply(claims=[QuotedClaim(quote=one.text, claim=one.resolved) for one in found])


EXTRACT_CLAIMS = Task.load("extract_claims", ExtractClaimsReply, by_rules)

_ALIKE = ("'’‘ʼ′`", '"“”„″', "-‐‑‒–—−")
_SAME = {sign: f"[{re.escape(group)}]" for group in _ALIKE for sign in group}


def claims_asked(answer: CheckedAnswer) -> dict[str, Any]:
    """Return the slots of the request for an answer's claims; `read_claims` reads the response."""
    return {"question": answer.question, "answer": answer.answer, "drug": answer.drug}


def read_claims(answer: CheckedAnswer, response: Response) -> list[Claim]:
    """Return the claims of a response, in the order of the answer; each `text` is taken from the answer.

    White space and the shapes of quotation marks, apostrophes and dashes are ignored. If a quote occurs several times,
    the first place after the claim before it is used. Raises Unparsable as `Task.parse` does, and with the reason
    quote_not_found if a quote is not in the answer, or overlapping_quotes if two quotes overlap.
    """
    taken = list[ClaimSpan]()
    for one in EXTRACT_CLAIMS.parse(response).claims:
        start, end = _place(one.quote, answer.answer, taken)
        taken.append(ClaimSpan(start, end, one.claim))
    return numbered(answer, sorted(taken, key=lambda said: said.start))


def _place(quote: str, answer: str, taken: list[ClaimSpan]) -> tuple[int, int]:
    places = [found.span() for found in _pattern(quote).finditer(answer)]
    if not places:
        raise Unparsable("quote_not_found", f"no part of the answer: {quote[:120]!r}")
    free = [place for place in places if not any(place[0] < one.end and one.start < place[1] for one in taken)]
    if not free:
        raise Unparsable("overlapping_quotes", f"shares letters with another quote: {quote[:120]!r}")
    past = taken[-1].end if taken else 0
    return next((place for place in free if place[0] >= past), free[0])


def _pattern(quote: str) -> re.Pattern[str]:
    """Return a pattern that finds the quote, but not within a longer word or number."""
    words = ("".join(_SAME.get(sign, re.escape(sign)) for sign in word) for word in quote.split())
    first = r"(?<![^\W_])(?<!\d[.,])" if quote[0].isalnum() else ""
    last = r"(?![^\W_]|[.,]\d)" if quote[-1].isalnum() else ""
    return re.compile(first + r"\s+".join(words) + last)


FACTUALITY_TASKS: dict[str, Task[Any]] = {task.name: task for task in (EXTRACT_CLAIMS, JUDGE_CLAIM)}
"""All tasks of checking answers, by name."""

FACTUALITY_RULES_VERSION = source_digest(
    "fdarx_core.baseline",
    "fdarx_core.verify",
)
"""The state of the baseline's rules: `Baseline(FACTUALITY_TASKS, FACTUALITY_RULES_VERSION)`."""
