"""A passage as equivalence compares it: its terms, the windows in which a statement may stand, its word sequences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise

from fdarx_core.evaluation.baseline.grading_words import is_little, stem, weight
from fdarx_core.filters.text import sentences
from fdarx_core.records import Passage

SHORT_PASSAGE = 50
"""Words up to which a passage is one window."""
LONG_LIST = 60
"""Words from which a list's items are windows of their own, each with the lead-in."""
SEQUENCE = 3
"""Neighbouring terms that are compared as one."""

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]\w*")
_SIGNS = str.maketrans({"²": "2", "³": "3", "µ": "u", "μ": "u", "\u00ad": None, "\u200b": None, "’": "'"})
_THOUSANDS = re.compile(r",(?=\d{3}(?:\D|$))")
_ITEM = re.compile(r"\s*(?:[-•·●▪◦*○–]|\(?\w{1,2}[.)])\s+")
_QUALIFIERS = {
    "children": r"p(?:a|e|ae)diatric|child(?!-pugh)|adolescen|infant|neonat|newborn|juvenile",
    "older adults": r"geriatric|elderly|older (?:adult|patient)",
    "pregnancy": r"pregnan|gestation|trimester|in utero",
    "lactation": r"lactat|breast-?\s?fe|nursing|\bmilk\b",
    "renal impairment": r"\brenal|kidney|dialysis|creatinine|egfr|\bcrcl\b",
    "hepatic impairment": r"hepat|\bliver\b|cirrho|child-pugh",
    "animals": r"\brats?\b|\bmice\b|\bmouse\b|rabbit|\bdogs?\b|monkey|\banimals?\b",
    "overdose": r"overdos",
    "extended release": r"extended[- ]release|\b[ex]r\b|delayed[- ]release|sustained[- ]release",
    "injected": r"inject|intravenous|intramuscular|subcutaneous|\biv\b",
    "liquid": r"\bsuspension|\bsolution|\bsyrup",
    "on the skin or in the eye": r"topical|\bgel\b|\bcream\b|ophthalmic|\beye",
    "migraine": r"migraine",
    "juvenile arthritis": r"juvenile",
    "men or women alone": r"\bfemales?\b|\bmales?\b|\bwomen\b|\bmen\b",
}
_QUALIFIER = tuple((name, re.compile(words)) for name, words in _QUALIFIERS.items())


@lru_cache(maxsize=262144)
def _term(token: str) -> str:
    if token[0].isdigit():
        return _THOUSANDS.sub("", token)
    return "" if is_little(token) else stem(token)


def sequence(text: str) -> list[str]:
    """The stems of the words that carry meaning, and the numbers, thousands separators taken out, in order."""
    return [term for term in map(_term, _TOKEN.findall(text.lower().translate(_SIGNS))) if term]


def terms(text: str) -> frozenset[str]:
    """The distinct terms of `sequence`."""
    return frozenset(sequence(text))


def figures(found: frozenset[str]) -> frozenset[str]:
    """The numbers among terms."""
    return frozenset(term for term in found if term[0].isdigit())


def qualifiers(text: str) -> frozenset[str]:
    """What narrows a statement: the groups of patients, animals, overdose, and dosage forms that it speaks of."""
    lowered = text.lower()
    return frozenset(name for name, words in _QUALIFIER if words.search(lowered))


def lacks(wanted: frozenset[str], held: frozenset[str], most: float) -> bool:
    """Whether a number of what is wanted is missing, or more of its weight than the share `most`."""
    missing = wanted - held
    if not missing:
        return False
    if len(missing) > 6 * most * len(wanted):  # no term weighs more than six times another: most end here, unweighed
        return True
    return bool(figures(missing)) or weight(missing) > most * weight(wanted)


class Reading:
    """One passage, read as far as it is asked for."""

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.index = passage.doc_chunk_index
        self.text = passage.text
        self.order = sequence(passage.text)
        self.terms = frozenset(self.order)

    @cached_property
    def heading(self) -> frozenset[str]:
        return terms(f"{self.passage.section_path} {self.passage.section_title}")

    @cached_property
    def qualifiers(self) -> frozenset[str]:
        return qualifiers(self.text)

    @cached_property
    def windows(self) -> list[tuple[str, frozenset[str]]]:
        """Each sentence, two of a paragraph that are neighbours, lists with their lead-in, each table row.

        A line of its own that ends without a stop heads what follows. A short passage is a window as well.
        """
        units = list(_units(self.text))
        pairs = [f"{one}\n{other}" for (one, goes_on), (other, _) in pairwise(units) if goes_on]
        whole = [self.text] if len(self.text.split()) <= SHORT_PASSAGE else []
        return [(text, terms(text)) for text in (*(unit for unit, _ in units), *pairs, *whole)]

    def holding(self, wanted: frozenset[str], most: float) -> list[tuple[str, frozenset[str]]]:
        """The windows that lack no number of what is wanted and no more of its weight than the share `most`."""
        return [window for window in self.windows if not lacks(wanted, window[1], most)]

    @cached_property
    def sequences(self) -> frozenset[tuple[str, ...]]:
        ends = range(max(1, len(self.order) - SEQUENCE + 1))
        return frozenset(tuple(self.order[start : start + SEQUENCE]) for start in ends)


def _units(text: str) -> Iterator[tuple[str, bool]]:
    """Sentences, table rows, and lists with what introduces them, each with whether the next one belongs to it."""
    open_list: list[str] = []
    for line in text.split("\n"):
        if open_list and _ITEM.match(line):
            open_list.append(line)
            continue
        yield from _joined(open_list)
        open_list = []
        if " | " in line:
            yield line, False
        elif found := sentences(line):
            yield from ((sentence, True) for sentence in found[:-1])
            open_list = found[-1:]
    yield from _joined(open_list)


def _joined(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    text = "\n".join(lines)
    if len(lines) > 1 and text.count(" ") > LONG_LIST:
        yield from ((f"{lines[0]}\n{item}", False) for item in lines[1:])
    elif lines:
        yield text, len(lines) == 1 and not text.rstrip().endswith((".", ";", ",", ")", "]"))
