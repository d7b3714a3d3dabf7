"""Doses in answers that the numbers of a label do not give: amounts, dosing intervals, the most a day.

Numbers alone are compared here; what an answer says of them is for a verifier or a person to decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fdarx_core.baseline.numbers import Quantity, find_intervals, find_quantities
from fdarx_core.baseline.sentences import sentence_spans, split_sentences
from fdarx_core.baseline.stems import terms
from fdarx_core.baseline.tokens import normalize
from fdarx_core.labels.loinc import DOSAGE_SECTION
from fdarx_core.records import CheckedAnswer, Passage

_TO_TAKE = frozenset(
    (DOSAGE_SECTION, "43678-2", "34069-5", "34067-9", "34066-1", "34073-7", "43684-0", "34081-0", "34082-8", "34089-3")
)
"""Sections that give doses to take, or what the drug contains; pharmacology, studies and overdosage give others."""
_MASSES = ("mg", "unit", "meq")
_COUNTED = ("tablet", "capsule", "puff", "drop", "patch")
_DAY = 24.0
_RANGE = re.compile(r"\s*(?:[a-z/]+\s*)?(?:-|to|and|or)\s*")
_IS_TOTAL = re.compile(r"\s*(?:/ ?d(?:ay)?\b|daily\b|(?:a|per|each) day\b)")
_HAS_TOTAL = re.compile(r"(?:/|per|a)\s*d(?:ays?)?$")
_UNITS_IN_BRACKETS = re.compile(r"\((?:ng|mcg|mg|g)\)(?=/)")
_ASKS_FOR_DOSE = re.compile(r"\b(?:dose|dosage|dosing)\b|\bhow (?:much|often|many)\b")
_MOST_QUOTED = 12
"""Sentences of the label on doses that a dose is compared with."""

_Found = tuple[int, int, Quantity]
"""Where an amount begins and ends in its text, and what it is."""


class _Doses:
    """The amounts of a sentence, `found`, and the dosing intervals that it states, `intervals`, in hours.

    `text` has blanks in place of the intervals.
    """

    def __init__(self, sentence: str) -> None:
        text = _UNITS_IN_BRACKETS.sub("", normalize(sentence))
        self._places = find_intervals(text)
        self.intervals = frozenset(hours for _, _, found in self._places for hours in found)
        for start, end, _ in self._places:
            text = text[:start] + " " * (end - start) + text[end:]
        self.text, self.found = text, find_quantities(text)

    def a_day(self) -> Iterator[tuple[Quantity, float]]:
        """Yield each amount to take, and how often a day.

        The interval is the first one after an amount, up to the next amount, or the only one of the sentence. An amount
        without one, and an amount a day, count once.
        """
        doses = [one for one in self.found if _is_taken(one[2])]
        limits = [*(start for start, _, _ in doses[1:]), len(self.text)]
        for (_, end, one), limit in zip(doses, limits, strict=False):
            near = [hours for start, _, hours in self._places if end <= start < limit]
            if len(self._places) == len(doses) == 1:
                near = [self._places[0][2]]
            is_total = _IS_TOTAL.match(self.text, end) or _HAS_TOTAL.search(one.text)
            least = 0.0 if is_total or not near else min(near[0])
            yield one, _DAY / least if 0 < least < _DAY else 1.0


@dataclass(frozen=True, slots=True)
class LabelDoses:
    """The numbers of one label on doses.

    Attributes:
        amounts: (value, unit) of all amounts in sections that give doses to take, in a day too where a dose is divided.
        ranges: (unit, least, most).
        most: the largest amount a day by unit that Dosage and Administration gives.
        shortest: hours of the shortest dosing interval there; 0 where it states none.
        sentences: its sentences with an amount or an interval, each with the passage.
    """

    amounts: frozenset[tuple[float, str]]
    ranges: frozenset[tuple[str, float, float]]
    most: dict[str, float]
    shortest: float
    sentences: tuple[tuple[str, Passage], ...]

    @classmethod
    def of(cls, passages: Sequence[Passage], shared: dict[Hashable, Hashable]) -> LabelDoses:
        """Read the doses of a label; equal sets of amounts are kept once, in `shared`."""
        amounts: set[tuple[float, str]] = set()
        ranges: set[tuple[str, float, float]] = set()
        most: dict[str, float] = {}
        intervals: set[float] = set()
        sentences = list[tuple[str, Passage]]()
        for passage in (one for one in passages if one.core_code in _TO_TAKE):
            for sentence in (one for line in passage.text.split("\n") for one in split_sentences(line, "label")):
                doses = _Doses(sentence)
                taken = list(doses.a_day())
                amounts |= {(one.value, one.unit) for one, _ in taken}
                ranges |= set(_ranges(doses))
                if passage.core_code != DOSAGE_SECTION:
                    continue
                totals = [(one.value * often, one.unit) for one, often in taken]
                amounts |= {(_rounded(total / by), unit) for total, unit in totals for by in (1, 2, 3, 4)}
                most |= {unit: max(total, most.get(unit, 0.0)) for total, unit in totals}
                intervals |= doses.intervals
                if taken or doses.intervals:
                    sentences.append((sentence, passage))
        return cls(
            amounts=shared.setdefault(frozenset(amounts), frozenset(amounts)),  # type: ignore[arg-type]
            ranges=frozenset(ranges),
            most=most,
            shortest=min(intervals, default=0.0),
            sentences=tuple(sentences),
        )

    def give(self, one: Quantity, times: Sequence[float], weights: Sequence[float]) -> bool:
        """Return whether the label gives an amount, in a range, as a multiple of one, or by a weight in kg."""
        shares = [(one.value / count, one.unit) for count in (1.0, *times) if 0 < count <= _DAY]
        shares += [(one.value / weight, f"{one.unit}/kg") for weight in weights if weight]
        return any(
            (_rounded(value), unit) in self.amounts
            or any(unit == other and low <= value <= high for other, low, high in self.ranges)
            for value, unit in shares
        )

    def quoted(self, text: str) -> list[tuple[str, Passage]]:
        """Return the sentences on doses that have most words in common with a text, in the order of the label."""
        wanted = terms(text)
        order = sorted(range(len(self.sentences)), key=lambda at: -len(wanted & terms(self.sentences[at][0])))
        return [self.sentences[at] for at in sorted(order[:_MOST_QUOTED])]


def doubtful_doses(
    answer: CheckedAnswer,
    labels: Sequence[LabelDoses],
    own: re.Pattern[str],
    names_in: Callable[[str], Sequence[str]],
) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, dose) of each sentence with a dose that no label gives, or that exceeds all of them.

    Args:
        answer: the answer and its question, whose amounts do not count.
        labels: the doses of the labels of the answer's drug.
        own: finds the names of the drug.
        names_in: finds the names of drugs in a text; amounts beside another drug's name do not count.
    """
    asked = {(one.value, one.unit) for _, _, one in _Doses(answer.question).found}
    for start, end in sentence_spans(answer.answer):
        doses = _Doses(answer.answer[start:end])
        doses.found = [one for one in doses.found if not _of_another(doses.text, one, own, names_in)]
        if dose := _unknown_amount(doses, labels, asked) or _too_often(doses, labels):
            yield start, end, dose


def _unknown_amount(doses: _Doses, labels: Sequence[LabelDoses], asked: set[tuple[float, str]]) -> str:
    """Return the first amount of a sentence that no label gives, or that is more a day than any gives; "" for none."""
    counts = {at for at, pair in enumerate(pairwise(doses.found)) if _counts(doses.text, *pair)}
    times = [one.raw for at, (_, _, one) in enumerate(doses.found) if at in counts or one.unit in ("", "x", *_COUNTED)]
    times += [_DAY / hours for hours in doses.intervals if hours]
    weights = [value for value, unit in asked if unit == "kg"]
    often = {(one.value, one.unit): number for one, number in doses.a_day()}
    for at, (_, _, one) in enumerate(doses.found):
        key = one.value, one.unit
        if at in counts or key in asked or not _is_taken(one):
            continue
        if _is_mass(one) and not any(label.give(one, times, weights) for label in labels):
            return one.text
        most = max(label.most.get(one.unit, 0.0) for label in labels)
        if most and one.value * often.get(key, 1.0) > 1.001 * most:
            return one.text
    return ""


def _too_often(doses: _Doses, labels: Sequence[LabelDoses]) -> str:
    """Return the dosing interval of a sentence that is shorter than any of the labels, "" for none."""
    known = [label.shortest for label in labels if label.shortest]
    least = min(doses.intervals, default=0.0)
    return f"every {least:g} hours" if known and 0 < least < 0.99 * min(known) else ""


def lacks_dose(question: str, answer: str) -> bool:
    """Return whether a question has words that ask for a dose, and the answer has neither number nor interval."""
    doses = _Doses(answer)
    return bool(_ASKS_FOR_DOSE.search(normalize(question))) and not doses.intervals and not doses.found


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


def _is_mass(one: Quantity) -> bool:
    return one.unit.split("/")[0] in _MASSES and not one.unit.endswith(("ml", "%"))


def _is_taken(one: Quantity) -> bool:
    return _is_mass(one) or one.unit in _COUNTED


def _counts(text: str, one: _Found, other: _Found) -> bool:
    """Return whether a number counts the amount after it: "two 200 mg doses"."""
    return text[one[1] : other[0]].strip() in ("", ",") and not re.search("[a-z]", text[one[0] : one[1]])


def _ranges(doses: _Doses) -> Iterator[tuple[str, float, float]]:
    for (_, end, low), (start, _, high) in pairwise(doses.found):
        joined = _RANGE.fullmatch(doses.text[end:start])
        if joined and low.unit == high.unit and low.value < high.value and _is_mass(high):
            yield high.unit, low.value, high.value


def _of_another(text: str, amount: _Found, own: re.Pattern[str], names_in: Callable[[str], Sequence[str]]) -> bool:
    """Return whether an amount stands beside the name of another drug: "325 mg of aspirin", "aspirin 325 mg"."""
    first, last, _ = amount
    beside = f"{' '.join(text[:first].split()[-2:])} | {' '.join(text[last:].split()[:2])}"
    return not own.search(text[max(0, first - 60) : last + 40]) and bool(names_in(beside))
