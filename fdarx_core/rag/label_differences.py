"""Other labels of a drug that have another number than a statement of an answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from operator import itemgetter

from fdarx_core.records import Citation, NumberDifference
from fdarx_core.retrieval.index.near_copies import differing_numbers, numbers_and_words
from fdarx_core.text.numbers import find_quantities, without_thousands


def with_differences(text: str, citations: Iterable[Citation]) -> list[Citation]:
    """Return the citations of an answer with their `differences`.

    A difference counts if the number stands in the cited place and in the statement. A number that stands in the
    sentence both with and without a difference counts only if the statement has it as often.
    """
    found = list[Citation]()
    for citation in citations:
        statement, differences = text[slice(*citation.statement)], list[NumberDifference]()
        for difference in citation.hit.differences:
            if others := [
                other for other in difference.others if _used(citation, statement, difference.sentence, other.sentence)
            ]:
                differences.append(NumberDifference(difference.sentence, others))
        found.append(replace(citation, differences=differences) if citation.hit.differences else citation)
    return found


def differences_text(text: str, citations: Iterable[Citation]) -> str:
    """Return the sentences that say which numbers other labels have instead of those of an answer; "" for none.

    Numbers have their units, and the date of the newest label that has them.

    Args:
        text: the answer.
        citations: its citations with their `differences`.
    """
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for citation in citations:
        for sentence, other in (
            (difference.sentence, other) for difference in citation.differences for other in difference.others
        ):
            pairs = _used(citation, text[slice(*citation.statement)], sentence, other.sentence)
            own = " and ".join(dict.fromkeys(_amount(sentence, number) for number, _ in pairs))
            value = " and ".join(dict.fromkeys(_amount(other.sentence, number) for _, number in pairs))
            known = found.setdefault(own, {})
            same = known.setdefault(without_thousands(value), (value, other.effective_date))
            known[without_thousands(value)] = max(same, (value, other.effective_date), key=itemgetter(1))
    listed = {
        own: ", ".join(f"{value} ({date})" for value, date in sorted(values.values(), key=itemgetter(1), reverse=True))
        for own, values in found.items()
    }
    return " ".join(f"Other labels differ from {own}: {values}." for own, values in listed.items())


def _used(citation: Citation, statement: str, sentence: str, other: str) -> list[tuple[re.Match[str], re.Match[str]]]:
    """Return the differing numbers of a sentence that are in the cited place and that the statement has."""
    start = citation.hit.text.index(sentence)
    pairs = differing_numbers(sentence, other)
    said, stated = _counted(numbers_and_words(statement)), _counted(numbers_and_words(sentence))
    differing = _counted(own for own, _ in pairs)
    return [
        (own, also)
        for own, also in pairs
        if citation.start <= start + own.start() and start + own.end() <= citation.end
        for number in [_plain(own)]
        if said[number] >= (1 if differing[number] == stated[number] else stated[number])
    ]


def _counted(found: Iterable[re.Match[str]]) -> Counter[str]:
    return Counter(map(_plain, found))


def _plain(number: re.Match[str]) -> str:
    return number[0].replace(",", "")


def _amount(sentence: str, number: re.Match[str]) -> str:
    """Return a number as it is written, with its unit if it has one."""
    rest = _plain(number) + sentence[number.end() :].lower()
    start, end, quantity = next(iter(find_quantities(rest)), (1, 0, None))
    if start or quantity is None or not quantity.unit:
        return number[0]
    written = sentence[number.end() : number.end() + end - len(_plain(number))]
    return number[0] + (written or quantity.text.removeprefix(_plain(number)))
