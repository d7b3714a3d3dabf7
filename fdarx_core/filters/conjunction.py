"""Multi-hop questions that are two questions joined. Source: FDARxBench §B.4, stage 1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from fdarx_core.filters.text import content_words

_DRUG = "thedrug"
_JOIN = r"(?:[,;]\s*)?\b(?:and|plus|as well as|along with|together with|in addition to)(?:\s+also)?\s+"
_BE = r"(?:is|are|was|were|has|have|had)"
_MODAL = r"(?:should|can|could|may|might|must|will|would)"
_AUXILIARY = rf"(?:{_BE}|{_MODAL}|does|do|did)"
_IT = rf"(?:it|they|there|this|these|{_DRUG})"
_SUBJECT = rf"(?:{_IT}|the|a|an|any|its|patients?|women|men|children|adults|doses?|dosage|treatment|therapy)"
_PREPOSITION = r"(?:of|for|in|on|at|by|to|with|from|during|after|before|under|within|when|while|if|that|who|which)"

_INTERROGATIVE = re.compile(r"\b(?:what|why|how|which|who|whom|whose|when|where|whether)\b")
_SECOND_QUESTION = re.compile(
    rf"{_JOIN}(?:{_PREPOSITION}\s+)?(?:(?P<open>what|why|how|whether)\b"
    rf"|(?P<narrow>which|whose)\s+(?:\w+\s+){{0,5}}?{_AUXILIARY}\b|(?P<inverted>who|whom|when|where)\s+{_AUXILIARY}\b)"
)
_SECOND_CLAUSE = re.compile(
    rf"{_JOIN}(?:{_BE}\s+{_IT}\b|{_MODAL}\s+{_SUBJECT}\b|(?:does|do|did)\s+(?!not\b)\w+)",
)
_SUBJECTS = re.compile(rf"\b(?:what|which)\s+(?:is|are|was|were)\s+(?P<first>[^?;]+?)\s*{_JOIN}(?P<second>[^?;]+)\?")
_ACTIONS = re.compile(rf"\bhow\s+\w+\s+{_DRUG}\s+(?:be\s+)?(?P<first>[^?;]+?)\s*{_JOIN}(?P<second>[^?;]+)\?")
_TAIL = re.compile(rf"\s*\b{_PREPOSITION}\b.*$")
_OF_DRUG = re.compile(
    rf"\s*\b(?:of|for|with)\s+{_DRUG}\b(?:\s+(?:tablets?|capsules?|injection|therapy|treatment))?\s*$"
)
_SUFFIX = re.compile(r"(?<=\w{3})(?:ages?|ations?|ings?|ed|es|e)$")
_VAGUE = frozenset("recommended usual typical available main common appropriate specific possible potential".split())  # noqa: SIM905


def artificial_conjunction(question: str, drug_names: Sequence[str], contexts: Sequence[str]) -> str | None:
    """The joint of two questions that could be asked apart, None for one question.

    Either a conjunction opens a second clause that asks ("…, and how is it supplied?"), or it joins two things asked
    for, of which one stands in the first context only and the other in the second only ("the storage temperature and
    the maximum dose"). "Renal and hepatic impairment" joins nothing that is asked for.
    """
    asked = _masked(question, tuple(drug_names))
    second = _second_question(asked) or _SECOND_CLAUSE.search(asked)
    if second:
        return f"a second question: {second[0].strip()!r}"
    for first, other in _halves(asked):
        if len(contexts) > 1 and _stand_apart(first, other, contexts[0], contexts[1]):
            return f"two things asked for, one in each context: {first!r} and {other!r}"
    return None


def _masked(question: str, drug_names: tuple[str, ...]) -> str:
    """Lower case, with one word for the drug: names have conjunctions of their own."""
    pattern = _names_pattern(drug_names)
    return pattern.sub(_DRUG, question).lower() if pattern else question.lower()


@lru_cache(maxsize=16)
def _names_pattern(drug_names: tuple[str, ...]) -> re.Pattern[str] | None:
    listed = sorted((name for name in drug_names if name.strip()), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, listed))})(?!\w)", re.IGNORECASE) if listed else None


def _second_question(asked: str) -> re.Match[str] | None:
    for found in _SECOND_QUESTION.finditer(asked):
        word = found["open"] or found["narrow"] or found["inverted"]
        if word not in _subordinate(asked[: found.start()], word):
            return found
    return None


def _subordinate(before: str, word: str) -> set[str]:
    """The words that open side clauses so far: "in patients who smoke, and who have …" goes on with the same one."""
    inside = set(_INTERROGATIVE.findall(before)[1:])
    return inside | {word} if word in ("which", "who") and " that " in before else inside


def _halves(asked: str) -> Iterator[tuple[str, str]]:
    for pattern in (_SUBJECTS, _ACTIONS):
        if found := pattern.search(asked):
            first = _OF_DRUG.sub("", found["first"])
            if not _TAIL.search(first) and not re.search(rf"\b{_AUXILIARY}\b", found["second"]):
                yield first.strip(), _TAIL.sub("", found["second"]).strip()


def _stand_apart(first: str, other: str, a: str, b: str) -> bool:
    one, two, in_a, in_b = _stems(first), _stems(other), _stems(a), _stems(b)
    straight = _only(one, in_a, in_b) and _only(two, in_b, in_a)
    return straight or (_only(one, in_b, in_a) and _only(two, in_a, in_b))


def _only(half: frozenset[str], here: frozenset[str], there: frozenset[str]) -> bool:
    return bool(half & here) and not half & there


@lru_cache(maxsize=256)
def _stems(text: str) -> frozenset[str]:
    return frozenset(_SUFFIX.sub("", word) for word in content_words(text) - _VAGUE if word != _DRUG)
