"""An answer with citations, understood."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fdarx_core.evaluation.answers.reading import without_thoughts
from fdarx_core.evaluation.answers.refusals import declines

NOTHING_FOUND = "No passage was found for this question."
"""What stands in the answer's place where there is no context at all."""

_GAP = r"\s{0,3}"
_NAME = rf"(?:contexts?|passages?|sources?|documents?|refs?\.?|no\.|#|\^){_GAP}"
_NUMBER = rf"(?:{_NAME})?([0-9]{{1,6}})"
_ONE = rf"{_NUMBER}(?:{_GAP}(?:-|–|—|\bto\b){_GAP}{_NUMBER})?"
_ALL = rf"{_GAP}{_ONE}(?:{_GAP}(?:[,;&]|\band\b){_GAP}(?:and{_GAP})?{_ONE}){{0,40}}{_GAP}(?:†[^\[\]【】]{{0,80}})?"
_CITATION = re.compile(rf"\[{_ALL}\](?!\w|-\w)|【{_ALL}】", re.IGNORECASE)
"""No letter follows, as in the names of ring systems: "[1,2,4]triazolo"."""
_RANGE = re.compile(_ONE, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AnswerRead:
    """What an answer says. `text` is the answer with each citation of a context as [n], and all else as it stands.

    `citations` are the contexts cited, `unknown` the numbers cited that no context has: each once, in the order of
    their naming. `refused`: it says that the contexts hold no answer, and gives none.
    """

    text: str
    citations: list[int]
    refused: bool
    unknown: list[int]


def read_answer(text: str, contexts: int) -> AnswerRead:
    """Reads an answer to so many contexts. Never raises; thoughts in tags are dropped, unended ones leave no text.

    Citations are numbers in brackets: [2], [1][3], [1, 3], [1-3], [Context 2], 【2】. Other brackets are text.
    """
    said = (without_thoughts(text) or "").strip()
    named = [number for found in _CITATION.finditer(said) for number in _numbers(found[0], contexts)]
    known = dict.fromkeys(number for number in named if 1 <= number <= contexts)
    unknown = dict.fromkeys(number for number in named if number not in known)
    plain = re.sub(r"[*`#>]", "", _CITATION.sub("", said)).strip()
    canonical = _CITATION.sub(lambda found: _canonical(found[0], contexts), said)
    return AnswerRead(canonical, list(known), declines(plain), list(unknown))


def _numbers(citation: str, contexts: int) -> list[int]:
    """All that one pair of brackets cites. Of a range that leaves the contexts, only its ends can be unknown."""
    named = list[int]()
    for found in _RANGE.finditer(citation.partition("†")[0]):
        first = int(found[1])
        last = int(found[2] or first)
        inner = range(max(first + 1, 1), min(last, contexts + 1))
        named += [first, *inner, *([last] if last != first else [])]
    return named


def _canonical(citation: str, contexts: int) -> str:
    """[1, 3] as [1][3]; as it stands where it cites what no context is."""
    numbers = _numbers(citation, contexts)
    return "".join(f"[{n}]" for n in numbers) if all(1 <= n <= contexts for n in numbers) else citation
