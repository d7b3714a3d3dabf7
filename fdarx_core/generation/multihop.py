"""Questions that need two passages: calculations from quantities of two sections, and comparisons of two frequencies.

The answer begins with its conclusion, a calculation that can be checked ("2,550 mg / 850 mg = 3"), and then states what
it was calculated from, in the words of the label. Where a label gives a quantity twice, with different values, nothing
is calculated from it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from fdarx_core.baseline.numbers import find_intervals
from fdarx_core.baseline.statements import Dose, maximum_daily_dose, strengths
from fdarx_core.generation.label_reader import MAX_ANSWER, LabelReader, TopicAnswer
from fdarx_core.generation.terminology import Topic, fold, terms_of
from fdarx_core.generation.topic_sections import REACTIONS
from fdarx_core.generation.units import TopicStatement

COMPUTATION, COMPARISON, DOSES, BRIDGE = "computation", "frequency_comparison", "dose_comparison", "bridge"
MULTIHOP_KINDS = (COMPUTATION, COMPARISON, DOSES, BRIDGE)
_UNITS = "maximum daily dose"
_HALF_LIVES = "elimination half-life"
_INHIBITORS, _INDUCERS = "inhibitors of its main metabolizing enzyme", "inducers of its main metabolizing enzyme"
NAMED_TOPICS = {COMPUTATION: (_UNITS, _HALF_LIVES), BRIDGE: (_INHIBITORS, _INDUCERS)}
"""The topics that are no term of the terminology, by kind."""

_DOSAGE_CODE = "34068-7"
_DESCRIPTION_CODE = "34089-3"
_SUPPLY_CODES = ("43678-2", "34069-5", _DESCRIPTION_CODE)
_PHARMACOLOGY_CODES = ("34090-1", "43682-4")
_HOURS = re.compile(
    r"(\d+(?:\.\d+)?)(?:\s*(?:-|–|to)\s*(\d+(?:\.\d+)?))?\s*-?(hours?|hrs?|h|minutes?|min|days?)\b", re.I
)
_FREQUENCY = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)")
_CHOICE = re.compile(r"\bor\b|\bto\b|-", re.I)
_LARGEST_RATIO = 24
_MAXIMUM = (" maxim", " exceed", " no more than")
_ENZYMES = (" cyp", " p450", " p 450", " cytochrome", " isoenzyme", " isozyme")
_ENZYME = re.compile(r"\b(?:CYP|P-?450 ?)\s?-?(\d[A-Z]\d{1,2})\b", re.I)
_MAINLY = re.compile(
    r"\b(?:primarily|mainly|predominantly|principally|chiefly|primary|main|major|predominant|principal)\b", re.I
)


@dataclass(slots=True)
class ComputedTopics:
    """The topics that two passages of a label answer together, and those that it is silent on.

    `anchors` are the names of what comparisons of each kind compare with.
    """

    answers: dict[Topic, TopicAnswer] = field(default_factory=dict)
    silent: list[Topic] = field(default_factory=list)
    anchors: dict[str, str] = field(default_factory=dict)


def computed_answers(
    reader: LabelReader, answers: Mapping[Topic, TopicAnswer], silent: Collection[Topic]
) -> ComputedTopics:
    """Return the topics that need two passages.

    Args:
        reader: the label.
        answers: the topics that the label answers in one place.
        silent: the topics that it is silent on.
    """
    found = ComputedTopics()
    candidates = (
        *_computations(reader, answers), *_comparisons(reader), *_dose_comparisons(answers), *_bridges(reader, answers)
    )  # fmt: skip
    for topic, answer in candidates:
        if len(answer.passages) == 2 and len(answer.text) <= MAX_ANSWER and topic not in found.answers:
            found.answers[topic] = answer
            found.anchors[topic.kind] = answer.anchor
    if Topic("quantity", "elimination half-life") in silent:
        found.silent.append(Topic(COMPUTATION, _HALF_LIVES))
    if not (reader.says_any(_MAXIMUM, {_DOSAGE_CODE}) or reader.says_any((" maximum recommended", " maximum daily"))):
        found.silent.append(Topic(COMPUTATION, _UNITS))
    if not reader.says_any(_ENZYMES):
        found.silent += [Topic(BRIDGE, _INHIBITORS), Topic(BRIDGE, _INDUCERS)]
    if DOSES in found.anchors:
        found.silent += [Topic(DOSES, topic.name) for topic in silent if topic.kind == "indication"]
    return found


def _computations(reader: LabelReader, answers: Mapping[Topic, TopicAnswer]) -> Iterator[tuple[Topic, TopicAnswer]]:
    maximum = _maximum_dose(reader)
    form, supply, highest = _highest_strength(reader)
    half_life = _duration(answers.get(Topic("quantity", "elimination half-life")))
    if maximum and highest:
        ratio = maximum[1].milligrams / highest.milligrams
        told = re.compile(rf"\b{highest.milligrams:g} ?mg[\w -]{{0,20}}(?:tablet|capsule)", re.I)
        one_hop = any(told.search(text) for text in reader.texts_of(maximum[0].passage))
        if 1 <= ratio <= _LARGEST_RATIO and ratio == int(ratio) and not one_hop:
            units = f"{form}{'s' if ratio > 1 else ''}"
            conclusion = f"{maximum[1].milligrams:,g} mg / {highest.milligrams:,g} mg = {ratio:g} {units}."
            yield _computed(_UNITS, conclusion, maximum[0], supply)
    interval = _interval(reader)
    if half_life and interval:
        yield _hours_ratio(_HALF_LIVES, interval, half_life)


def _hours_ratio(
    name: str, one: tuple[TopicStatement, float], other: tuple[TopicStatement, float]
) -> tuple[Topic, TopicAnswer]:
    conclusion = f"{one[1]:g} hours / {other[1]:g} hours = {_rounded(one[1] / other[1])}."
    return _computed(name, conclusion, one[0], other[0])


def _rounded(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 100 else f"{ratio:,.0f}"


def _computed(name: str, conclusion: str, one: TopicStatement, other: TopicStatement) -> tuple[Topic, TopicAnswer]:
    topic = Topic(COMPUTATION, name)
    return topic, TopicAnswer(topic, (one, other), conclusion)


def _compared(
    kind: str, anchor: str, name: str, conclusion: str, *statements: TopicStatement
) -> tuple[Topic, TopicAnswer]:
    topic = Topic(kind, name)
    return topic, TopicAnswer(topic, statements, conclusion, anchor)


def _maximum_dose(reader: LabelReader) -> tuple[TopicStatement, Dose] | None:
    """Return the only maximum daily dose of a label, with its statement; None where the section gives a higher dose."""
    found: list[tuple[TopicStatement, Dose]] = []
    amounts: list[float] = []
    for unit in reader.units:
        if unit.code == _DOSAGE_CODE and not reader.several:
            for one in unit.statements:
                amounts += [float(amount.replace(",", "")) for amount in _AMOUNT.findall(one.text)]
                if dose := maximum_daily_dose(one.text):
                    found.append((one, dose))
    if len({dose.milligrams for _, dose in found}) != 1 or max(amounts, default=0) > found[0][1].milligrams:
        return None
    return found[0]


def _highest_strength(reader: LabelReader) -> tuple[str, TopicStatement, Dose | None]:
    """Return the dosage form, the statement that gives the highest strength, and that strength.

    The strengths are those that are supplied: of the sections on forms, supply and the package label. There is none
    where a statement of these or of the description gives other strengths.
    """
    found: list[tuple[str, str, TopicStatement, tuple[Dose, ...]]] = []
    for unit in reader.units:
        if unit.code in _SUPPLY_CODES and not reader.several:
            for one in unit.statements:
                form, available = strengths(one.text)
                if available:
                    found.append((unit.code, form, one, available))
    supplied = {dose.milligrams for code, _, _, available in found if code != _DESCRIPTION_CODE for dose in available}
    supplied |= {dose.milligrams for dose in strengths(reader.package_label)[1]}
    for _, form, one, available in found:
        if supplied == {dose.milligrams for dose in available} and not one.is_row:
            return form, one, available[-1]
    return "", TopicStatement("", 0), None


def _duration(answer: TopicAnswer | None) -> tuple[TopicStatement, float] | None:
    """Return the only duration that an answer gives, in hours; None for several values or a range."""
    if answer is None or len(answer.statements) != 1:
        return None
    [statement] = answer.statements
    values = list(_HOURS.finditer(statement.text))
    if len(values) != 1 or values[0][2]:
        return None
    size = {"m": 1 / 60, "h": 1.0, "d": 24.0}[values[0][3][0].lower()]
    return statement, float(values[0][1]) * size


def _interval(reader: LabelReader) -> tuple[TopicStatement, float] | None:
    """Return the only dosing interval of the Dosage section, in hours; None for a drug that is taken when needed."""
    if reader.says_any((" as needed", " when needed", " maximum frequency", " dosing frequency"), {_DOSAGE_CODE}):
        return None
    found: dict[float, TopicStatement] = {}
    for unit in reader.units:
        if unit.code == _DOSAGE_CODE:
            for one in unit.statements:
                for start, end, hours in find_intervals(one.text.lower()):
                    if _CHOICE.search(one.text[max(0, start - 12) : end + 12]):
                        return None
                    for value in hours:
                        found.setdefault(value, one)
    return next(((one, hours) for hours, one in found.items()), None) if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table of adverse reactions: its statement, and the percentage of those who took the drug."""

    statement: TopicStatement
    percent: float


def _comparisons(reader: LabelReader) -> Iterator[tuple[Topic, TopicAnswer]]:
    """Yield comparisons of the frequency of each reaction with the most frequent one of another passage.

    Both frequencies are of one table; every other table that has both reactions has them in the same order.
    """
    tables = _frequency_tables(reader)
    for rows in tables:
        anchor = max(rows, key=lambda name: (rows[name].percent, name))
        for name, row in rows.items():
            first = rows[anchor]
            others = [other for other in tables if other is not rows and {anchor, name} <= other.keys()]
            consistent = all(other[anchor].percent > other[name].percent for other in others)
            if name == anchor or row.percent == first.percent or not consistent:
                continue
            conclusion = f"{first.percent:g}% > {row.percent:g}%: {anchor} was reported more often than {name}."
            yield _compared(COMPARISON, anchor, name, conclusion, first.statement, row.statement)


def _frequency_tables(reader: LabelReader) -> list[dict[str, _Row]]:
    """Return the rows of each table of adverse reactions by reaction; reactions with two rows are left out."""
    tables: dict[str, dict[str, _Row | None]] = {}
    for unit in reader.units:
        for one in unit.statements if unit.code in REACTIONS else ():
            cells = one.text.rstrip(".").split("; ")
            name = _reactions_by_name().get(fold(cells[0].rsplit(": ", 1)[-1]).strip())
            if not one.is_row or name is None or len(cells) < 2 or not reader.is_frequency(cells[1]):
                continue
            header, _, value = cells[1].rpartition(": ")
            found = _FREQUENCY.match(value.strip())
            if found and header and len(value.split()) == 1:
                rows = tables.setdefault(header, {})
                rows[name] = None if name in rows else _Row(one, float(found[1]))
    kept = ({name: row for name, row in rows.items() if row is not None} for rows in tables.values())
    return [rows for rows in kept if len(rows) > 1]


@cache
def _reactions_by_name() -> dict[str, str]:
    return {probe.strip(): term.name for term in terms_of("reaction") for probe in term.names}


def _dose_comparisons(answers: Mapping[Topic, TopicAnswer]) -> Iterator[tuple[Topic, TopicAnswer]]:
    doses = {
        topic: (answer.statements[0], dose)
        for topic, answer in answers.items()
        if topic.kind == "indication" and len(answer.statements) == 1 and (dose := _only_dose(answer.text))
    }
    if not doses:
        return
    anchor = min(doses, key=lambda topic: topic.name)
    for other, (second, amount) in doses.items():
        first, size = doses[anchor]
        if other != anchor and amount != size:
            larger, smaller = (anchor, other) if size > amount else (other, anchor)
            amounts = f"{max(size, amount):g} mg > {min(size, amount):g} mg"
            conclusion = f"{amounts}: the dose for {larger.name} is higher than for {smaller.name}."
            yield _compared(DOSES, anchor.name, other.name, conclusion, first, second)


_AMOUNT = re.compile(r"(?<![\d.])(\d[\d,]*(?:\.\d+)?) ?mg\b(?! ?/ ?k)")


def _only_dose(text: str) -> float | None:
    amounts = {float(found.replace(",", "")) for found in _AMOUNT.findall(text)}
    return amounts.pop() if len(amounts) == 1 else None


def _bridges(reader: LabelReader, answers: Mapping[Topic, TopicAnswer]) -> Iterator[tuple[Topic, TopicAnswer]]:
    """Yield what a label says of drugs that inhibit or induce the one enzyme that mainly metabolizes the drug."""
    found: dict[str, TopicStatement] = {}
    for unit in reader.units:
        for one in unit.statements if unit.code in _PHARMACOLOGY_CODES else ():
            if "metabol" in one.text and _MAINLY.search(one.text):
                for enzyme in _ENZYME.findall(one.text):
                    found.setdefault(enzyme.upper(), one)
    if len(found) != 1:
        return
    [(enzyme, statement)] = found.items()
    for name, role in ((_INHIBITORS, "inhibitors"), (_INDUCERS, "inducers")):
        answer = answers.get(Topic("partner", f"CYP{enzyme} {role}"))
        if answer is not None and len(answer.passages) == 1 and answer.passages != [statement.passage]:
            topic = Topic(BRIDGE, name)
            yield topic, TopicAnswer(topic, (statement, *answer.statements))
