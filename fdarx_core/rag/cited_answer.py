"""Parsing an answer with citations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fdarx_core.baseline.refusals import declines
from fdarx_core.evaluation.replies import without_thoughts
from fdarx_core.records import Response

NOTHING_FOUND = "No passage was found for this question."
"""The answer where there is no context."""

_GAP = r"\s{0,3}"
_NAME = rf"(?:contexts?|passages?|sources?|documents?|refs?\.?|no\.|#|\^){_GAP}"
_NUMBER = rf"(?:{_NAME})?([0-9]{{1,6}})"
_RANGE = rf"{_NUMBER}(?:{_GAP}(?:-|–|—|\bto\b){_GAP}{_NUMBER})?"
_LIST = rf"{_GAP}{_RANGE}(?:{_GAP}(?:[,;&]|\band\b){_GAP}(?:and{_GAP})?{_RANGE}){{0,40}}{_GAP}(?:†[^\[\]【】]{{0,80}})?"
_NAME_FOLLOWS = re.compile(r"\w|-\w")
_CITATION = re.compile(rf"\[{_LIST}\](?!{_NAME_FOLLOWS.pattern})|【{_LIST}】", re.IGNORECASE)
"""No name follows square brackets, as in ring systems: "[1,2,4]triazolo"."""
_CITED_RANGE = re.compile(_RANGE, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer, parsed from the reply of a model.

    Attributes:
        text: the answer, with each citation of a context as [n].
        citations: the numbers of the contexts cited, each once, in the order of first mention.
        refused: whether it says that the contexts hold no answer, and gives none.
        unknown: the numbers cited that no context has.
        reason: why there is no answer; "" where there is one.
        response: the reply; None where no model was asked.
        seconds: the time that the model took.
    """

    text: str
    citations: list[int]
    refused: bool = False
    unknown: list[int] = field(default_factory=list)
    reason: str = ""
    response: Response | None = None
    seconds: float = 0.0


def parse_cited_answer(text: str, contexts: int) -> CitedAnswer:
    """Parse an answer to a number of contexts; never raises.

    Thoughts in tags are dropped; thoughts without an end leave no text. Citations are numbers in brackets: [2],
    [1][3], [1, 3], [1-3], [Context 2], 【2】. Other brackets are text.
    """
    answer = (without_thoughts(text) or "").strip()
    numbers = [number for found in _CITATION.finditer(answer) for number in _numbers(found[0], contexts)]
    known = dict.fromkeys(number for number in numbers if 1 <= number <= contexts)
    unknown = dict.fromkeys(number for number in numbers if number not in known)
    plain = re.sub(r"[*`#>]", "", _CITATION.sub("", answer)).strip()
    canonical = _CITATION.sub(lambda found: _canonical(found, contexts), answer)
    return CitedAnswer(canonical, list(known), declines(plain), list(unknown))


def _numbers(citation: str, contexts: int) -> list[int]:
    """Return the numbers in one pair of brackets. Of a range beyond the contexts only its ends can be unknown."""
    numbers = list[int]()
    for found in _CITED_RANGE.finditer(citation.partition("†")[0]):
        first = int(found[1])
        last = int(found[2] or first)
        inner = range(max(first + 1, 1), min(last, contexts + 1))
        numbers += [first, *inner, *([last] if last != first else [])]
    return numbers


def _canonical(citation: re.Match[str], contexts: int) -> str:
    """Return [1, 3] as [1][3]; unchanged where it cites a number that no context has."""
    numbers = _numbers(citation[0], contexts)
    if not all(1 <= number <= contexts for number in numbers):
        return citation[0]
    # 【1】0 becomes "[1] 0", because "[1]0" is read as a name, not as a citation.
    space = " " if _NAME_FOLLOWS.match(citation.string, citation.end()) else ""
    return "".join(f"[{number}]" for number in numbers) + space
