"""The grade of an answer by the reference answer: numbers, populations, terms and polarity."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from fdarx_core.baseline.numbers import DOSE_UNITS, Intervals, Quantity, extract_intervals, extract_quantities
from fdarx_core.baseline.polarity import (
    StemPolarity,
    forbids,
    may_forbid,
    opposite_word,
    prohibits,
    reversed_stems,
    stem_polarity,
)
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.stems import canonical_names, is_stop_word, patient_groups, stem_spans, stem_weight, stems
from fdarx_core.baseline.tokens import normalize

_ITEM = re.compile(r"[;:\n]|[.,]\s|\b(?:and|or|but|then|while|whereas|followed by)\b")


def exchanged(gold: str, said: str) -> str:
    """Return the quantities that two plain texts give for each other's words; "" for fewer than two.

    "headache (11%), dry mouth (8%)" is not "headache (8%), dry mouth (11%)".
    """
    own, other = _beside(gold), _beside(said)
    shared = [word for word in own.keys() & other.keys() if own[word].unit == other[word].unit]
    right = {own[word].text for word in shared if own[word].equals(other[word])}
    wrong = {own[word].text for word in shared} - right
    return ", ".join(sorted(wrong)) if len(wrong) > 1 else ""


@lru_cache(maxsize=16384)
def _beside(text: str) -> dict[str, Quantity]:
    """Return the quantity beside each stem, for the stems that are beside exactly one."""
    found: dict[str, list[Quantity]] = {}
    for item in _ITEM.split(text):
        quantities, words = extract_quantities(item)
        if len(quantities) == 1:
            for word in set(stems(words)):
                found.setdefault(word, []).append(quantities[0])
    return {word: quantities[0] for word, quantities in found.items() if len(quantities) == 1}


MOST_NAMED = 12
"""The most phrases that a reason names; the others are counted."""

_TOKEN = re.compile(r"\w+|[%°]")
_STOP = re.compile(r"[^\w\s-]")


def written(original: str, spelled: str, wanted: frozenset[str], drug: str) -> str:
    """Return the first phrases of a text that contain the wanted stems, as they are written, separated by commas.

    `spelled` is the normalized form of `original`, `drug` the normalized name of the drug, which a phrase may contain.
    Adjacent words are one phrase. Words of low weight are left out if there are others.
    """
    phrases = list(_phrases(spelled, wanted, drug))
    telling = [phrase for phrase, says in phrases if says >= 1] or [phrase for phrase, _ in phrases]
    named = ", ".join(original_words(original, phrase) for phrase in telling[:MOST_NAMED])
    return f"{named} and {len(telling) - MOST_NAMED} more" if len(telling) > MOST_NAMED else named


def original_words(original: str, phrase: str) -> str:
    """Return a phrase of a normalized text as the original writes it, or the phrase itself if it is not found."""
    if (at := original.lower().find(phrase)) >= 0:
        return original[at : at + len(phrase)]
    parts = (",?".join(part) if part.isdigit() else re.escape(part) for part in _TOKEN.findall(phrase))
    found = re.search(r"(?<!\w)" + r"[\W_]*".join(parts), original, re.IGNORECASE)
    return " ".join(found[0].split()) if found else phrase


def _phrases(spelled: str, wanted: frozenset[str], drug: str) -> Iterator[tuple[str, float]]:
    """Yield phrases, runs of pieces that each contain a wanted stem (at least one new), with their weights."""
    left, start, end, held = set(wanted), -1, -1, frozenset[str]()
    for first, last, found in stem_spans(spelled):
        goes_on = start >= 0 and _joins(spelled[end:first].replace(drug or " ", " "))
        if not goes_on and start >= 0:
            if held & left:
                yield spelled[start:end], stem_weight(held & left)
            left, start, held = left - held, -1, frozenset()
        if found & wanted:
            start, end, held = (first if start < 0 else start), last, held | (found & wanted)
    if start >= 0 and held & left:
        yield spelled[start:end], stem_weight(held & left)


def _joins(between: str) -> bool:
    """Return whether only stop words are between two pieces."""
    return all(is_stop_word(word) for word in between.replace("-", " ").split()) and not _STOP.search(between)


@dataclass(frozen=True)
class GradedText:
    """A text as it was given (`original`) and as it compares.

    `spelled` is plain; `text` lacks the drug's name, and things go by one name in it; `words` has no numbers either.
    """

    original: str
    drug: str
    spelled: str
    text: str
    words: str
    quantities: tuple[Quantity, ...]
    intervals: Intervals
    terms: frozenset[str]

    @cached_property
    def groups(self) -> frozenset[str]:
        return patient_groups(self.text)

    @cached_property
    def forbids(self) -> bool:
        return forbids(self.text)

    @cached_property
    def statements(self) -> tuple[GradedText, ...]:
        """Its sentences."""
        return tuple(graded_text(sentence, self.drug) for sentence in split_sentences(self.original))

    def wording(self, wanted: frozenset[str]) -> str:
        """Return the phrases of the text that contain the terms, as they are written, in order."""
        return written(self.original, self.spelled, wanted, self.drug)

    def figures(self, wanted: list[Quantity]) -> str:
        """Return the quantities as the text writes them."""
        return ", ".join(dict.fromkeys(original_words(self.original, one.text) for one in wanted))


@lru_cache(maxsize=32768)
def graded_text(text: str, drug: str) -> GradedText:
    """Return a text prepared for grading. `drug` is the normalized name of the drug, which is ignored in answers."""
    spelled = normalize(text)
    named = canonical_names(spelled.replace(drug, " ") if drug else spelled)
    intervals, rest = extract_intervals(named)
    quantities, words = extract_quantities(rest)
    return GradedText(text, drug, spelled, named, words, quantities, intervals, frozenset(stems(words)))


Outcome = Literal["CORRECT", "INCORRECT", "NOT_ATTEMPTED"]

LEAST_HELD = 0.6
"""The share of the reference's terms, by weight and without the question's, that an answer must have."""
LEAST_HELD_OF_ALL, ENOUGH_OWN = 0.3, 2
"""Share of all its terms, where those that the question lacks weigh less than `ENOUGH_OWN` and say too little."""
LEAST_OWN = 1
"""The weight below which the reference's terms without the question's say nothing, so that all terms count."""
LEAST_HELD_OF_STATEMENT = 0.4
"""Share of each of the reference's sentences, of its terms that the question lacks where they weigh `ENOUGH_OWN`."""
LEAST_TOUCHED, ENOUGH_TO_TOUCH = 0.25, 3
"""Share of these terms of the whole reference below which an answer speaks of something else, where they weigh 3."""
LEAST_TURNED = 0.4
"""The share of a sentence's terms that must be denied where it affirms, or the reverse, in a contradiction."""
NUMBER_WEIGHT = 2
"""The weight of a number; terms weigh 1. All numbers must be there before terms are compared."""
LEAST_HELD_OF_ITEM = 0.5
"""The share of the terms of each listed contraindication that an answer must have."""
MOST_ADDED = 5
"""The terms that an answer may add, as a multiple of the reference's, and at least `ALWAYS_ALLOWED`."""
ALWAYS_ALLOWED = 40
MOST_EXCUSED, MOST_CLAIMED = 10, 3
"""Terms of its own that an answer without the requested information may have and still be no attempt: in all, and
beside the clauses in which it says so."""

_ABSTAINS = re.compile(
    r"\b(?:do not|don't|cannot|can't|could not|unable to|not able to) (?:know|answer|determine|say|find|tell|provide)\b"
    r"|\b(?:i am|i'm) (?:not sure|unsure|uncertain)\b|\bno (?:information|data|mention)\b|\binformation not found\b"
    r"|\bnot (?:clearly |explicitly )?(?:specif\w+|stated?|mention\w*|provided?|given|found|available|answerable)\b"
    r"|\b(?:does|do) not (?:clearly |explicitly )?(?:specify|state|mention|provide|say|give|address|contain)\b"
)
_VAGUE = re.compile(
    r"\bas (?:directed|prescribed|instructed|recommended)\b|\b(?:consult|ask|see|refer to|check|follow|read) "
    r"(?:with )?(?:a |an |the |your )?(?:full )?(?:label|physician|pharmacist|prescribing information|package)\b"
)
_CLAUSES = re.compile(r"[.;!?](?:\s|$)|\b(?:but|however|although|though)\b")
_ITEMS = re.compile(r"[;:\n•]|\.\s|,\s|\b(?:and|or)\b")
_WHO_OR_HOW_MUCH = re.compile(r"\bindicated\b|\bdos(?:e|es|age)\b|\bwho\b|\bwhom\b|\bpatients\b|\bpopulations?\b")
_CONDITION = re.compile(
    r"\w{3}(?:itis|a?emia|osis|pathy|uria|penia|tension|cardia|oma|cytosis)\b|renal|hepatic|hypersensitiv|ulcer|asthma|"
    r"hemorrhage|stroke|infarction|diabetes|\bheart|pregnan|infection|glaucoma|seizure|porphyria|obstruction|block\b"
)


@lru_cache(maxsize=16384)
def _sides(text: str, asked_what_is_forbidden: bool) -> StemPolarity:
    return stem_polarity(text, asked_what_is_forbidden=asked_what_is_forbidden)


def grade(drug: str, question: str, gold: str, predicted: str) -> tuple[Outcome, str, str]:
    """Return the grade of a predicted answer by the reference answer, the fault ("" for correct), and its detail."""
    texts = (graded_text(text, normalize(drug).strip()) for text in (question, gold, predicted))
    return _grade(*texts)


def _grade(question: GradedText, gold: GradedText, said: GradedText) -> tuple[Outcome, str, str]:
    for name, check in _CHECKS:
        if detail := check(question, gold, said):
            attempt = _abstention(question, gold, said)
            return ("NOT_ATTEMPTED", attempt, detail) if attempt else ("INCORRECT", name, detail)
    return "CORRECT", "", "the reference's numbers, patients and terms are there"


def _abstention(question: GradedText, gold: GradedText, said: GradedText) -> str:
    """Return the kind of an answer without claims, "abstained" or "vague", and "" for other answers."""
    if _foreign(said.quantities, (question, gold)) or len(said.terms - question.terms - gold.terms) > MOST_EXCUSED:
        return ""
    if not said.terms and not said.quantities:
        return "abstained"
    if _ABSTAINS.search(said.text):
        claims = "\n".join(clause for clause in _CLAUSES.split(said.words) if not _ABSTAINS.search(clause))
        return "abstained" if stem_weight(frozenset(stems(claims)) - question.terms) <= MOST_CLAIMED else ""
    return "vague" if _VAGUE.search(said.text) else ""


def _contradicted(question: GradedText, gold: GradedText, said: GradedText) -> str:
    missing, added = _missing(question, gold, said), _foreign(said.quantities, (question, gold))
    units = {one.unit for one in missing if one.unit}
    if wrong := [one for one in added if one.unit in units]:
        expected = [one for one in missing if one.unit in {other.unit for other in wrong}]
        return f"{said.figures(wrong)} instead of {gold.figures(expected)}"
    for one in gold.quantities:
        same = [other for other in said.quantities if one.equals(other)]
        if one.bound and same and all(other.bound not in ("", one.bound) for other in same):
            bounds = ("a lower", "an upper") if one.bound == "<" else ("an upper", "a lower")
            return f"{gold.figures([one])} as {bounds[0]} bound instead of {bounds[1]} one"
    if gold.intervals.stated and (other := said.intervals.stated - _known_intervals(question, gold)):
        return f"{_often(other)} instead of {_often(gold.intervals.stated)}"
    return ""


def _beside_the_question(question: GradedText, gold: GradedText, said: GradedText) -> str:
    own = gold.terms - question.terms
    if stem_weight(own) < ENOUGH_TO_TOUCH or stem_weight(own & said.terms) >= LEAST_TOUCHED * stem_weight(own):
        return ""
    words, figures = gold.wording(own - said.terms), gold.figures(_missing(question, gold, said))
    return f"{words}, {figures}" if figures else words


def _number_missing(question: GradedText, gold: GradedText, said: GradedText) -> str:
    late = gold.intervals.stated - question.intervals.meant - said.intervals.meant
    return gold.figures(_missing(question, gold, said)) or _often(late)


def _numbers_exchanged(question: GradedText, gold: GradedText, said: GradedText) -> str:
    return exchanged(gold.text, said.text) if len(gold.quantities) > 1 else ""


def _number_unsupported(question: GradedText, gold: GradedText, said: GradedText) -> str:
    often = said.intervals.stated - _known_intervals(question, gold)
    units = (*DOSE_UNITS, *(one.unit for one in (*gold.quantities, *question.quantities) if one.unit))
    added = [one for one in _foreign(said.quantities, (question, gold)) if one.unit.startswith(units)]
    return said.figures(added) or _often(often)


def _missing(question: GradedText, gold: GradedText, said: GradedText) -> list[Quantity]:
    return [one for one in _foreign(gold.quantities, (question,)) if not any(map(one.equals, said.quantities))]


def _foreign(quantities: Sequence[Quantity], known: Sequence[GradedText]) -> list[Quantity]:
    """Return the quantities that are in none of the texts."""
    return [one for one in quantities if not any(one.equals(other) for text in known for other in text.quantities)]


def _known_intervals(question: GradedText, gold: GradedText) -> frozenset[float]:
    return question.intervals.meant | gold.intervals.meant


def _group_missing(question: GradedText, gold: GradedText, said: GradedText) -> str:
    return ", ".join(sorted(gold.groups - question.groups - said.groups))


def _group_unsupported(question: GradedText, gold: GradedText, said: GradedText) -> str:
    decides = question.forbids or gold.forbids or bool(_WHO_OR_HOW_MUCH.search(question.text))
    return ", ".join(sorted(said.groups - gold.groups - question.groups)) if decides else ""


def _yes_for_no(question: GradedText, gold: GradedText, said: GradedText) -> str:
    answers = [text.text.split(None, 1)[0].strip(",.;:") for text in (gold, said) if text.text.strip()]
    return f"{answers[1]} instead of {answers[0]}" if sorted(answers) == ["no", "yes"] else ""


def _reversed(question: GradedText, gold: GradedText, said: GradedText) -> str:
    for one in gold.statements:
        turned = reversed_stems(_sides(one.words, question.forbids), _sides(said.words, question.forbids))
        if stem_weight(frozenset(turned)) > LEAST_TURNED * stem_weight(one.terms):
            return f"“{one.original}”"
    return ""


def _opposite(question: GradedText, gold: GradedText, said: GradedText) -> str:
    return opposite_word(gold.text, said.text)


def _content_missing(question: GradedText, gold: GradedText, said: GradedText) -> str:
    own = gold.terms - question.terms
    if not gold.terms and not gold.quantities:
        return "" if gold.text.split() == said.text.split() else gold.text.strip()
    if names := {term for term in own - said.terms if any(map(str.isdigit, term))}:
        return gold.wording(frozenset(names))
    figures = _figures(question, gold)
    if stem_weight(own) < LEAST_OWN and not figures:
        return gold.wording(_lacking(gold.terms, said.terms, LEAST_HELD, 0))
    if stem_weight(own) + figures < ENOUGH_OWN:
        lacking = _lacking(gold.terms, said.terms, LEAST_HELD_OF_ALL, figures)
        return gold.wording(lacking or _lacking(own, said.terms, LEAST_HELD, 0))
    return gold.wording(_lacking(own, said.terms, LEAST_HELD, figures))


def _statement_missing(question: GradedText, gold: GradedText, said: GradedText) -> str:
    for one in gold.statements if len(gold.statements) > 1 else ():
        own = one.terms - question.terms
        if stem_weight(own) >= ENOUGH_OWN and _lacking(
            own, said.terms, LEAST_HELD_OF_STATEMENT, _figures(question, one)
        ):
            return f"“{one.original}”"
    return ""


def _figures(question: GradedText, gold: GradedText) -> float:
    """Return the weight of the numbers of the reference that the question does not have."""
    return NUMBER_WEIGHT * (len(_foreign(gold.quantities, (question,))) + len(gold.intervals.stated))


def _lacking(wanted: frozenset[str], said: frozenset[str], least: float, figures: float) -> frozenset[str]:
    """Return the terms that are missing, none where enough are there; `figures` is the weight of numbers, all there."""
    missing = wanted - said
    enough = stem_weight(missing) <= (1 - least) * (stem_weight(wanted) + figures)
    return frozenset() if enough else missing


def _warning_missing(question: GradedText, gold: GradedText, said: GradedText) -> str:
    return _item_missing(question, gold, said) if question.forbids or "warning" in question.text else ""


def _ingredient_missing(question: GradedText, gold: GradedText, said: GradedText) -> str:
    return _item_missing(question, gold, said) if "ingredient" in question.text else ""


def _item_missing(question: GradedText, gold: GradedText, said: GradedText) -> str:
    lost = frozenset[str]()
    for item in _items(gold.words):
        own = item - question.terms
        if stem_weight(own) >= 1 and stem_weight(own & said.terms) < LEAST_HELD_OF_ITEM * stem_weight(own):
            lost |= own - said.terms
    return gold.wording(lost)


def _prohibition_missing(question: GradedText, gold: GradedText, said: GradedText) -> str:
    if question.forbids or may_forbid(said.text):
        return ""
    return next((f"“{one.original}”" for one in gold.statements if prohibits(one.text)), "")


def _warning_unsupported(question: GradedText, gold: GradedText, said: GradedText) -> str:
    known = gold.terms | question.terms
    for part in _ITEMS.split(said.words) if question.forbids else ():
        named = frozenset(stems(part))
        if _CONDITION.search(part) and not named & known:
            return said.wording(named)
    return ""


def _content_unsupported(question: GradedText, gold: GradedText, said: GradedText) -> str:
    added = said.terms - gold.terms - question.terms
    most = max(ALWAYS_ALLOWED, MOST_ADDED * stem_weight(gold.terms))
    return f"{len(added)} words beside the {len(gold.terms)} of the reference" if stem_weight(added) > most else ""


def _items(text: str) -> list[frozenset[str]]:
    return [frozenset(stems(item)) for item in _ITEMS.split(text)]


def _often(intervals: Iterable[float]) -> str:
    """Return intervals in hours as words, "" for none."""
    return ", ".join(_every(hours) for hours in sorted(intervals))


def _every(hours: float) -> str:
    for unit, length in (("months", 730.0), ("weeks", 168.0), ("days", 24.0)):
        if hours > length and hours % length == 0:
            return f"every {hours / length:g} {unit}"
    daily = {24.0: " (once daily)", 12.0: " (twice daily)", 8.0: " (3 times daily)", 6.0: " (4 times daily)"}
    return f"every {hours:g} hours{daily.get(hours, '')}"


_CHECKS: tuple[tuple[str, Callable[[GradedText, GradedText, GradedText], str]], ...] = (
    ("number_contradicted", _contradicted),
    ("polarity", _yes_for_no),
    ("warning_missing", _warning_missing),
    ("key_content_missing", _beside_the_question),
    ("number_missing", _number_missing),
    ("number_contradicted", _numbers_exchanged),
    ("unsupported_number", _number_unsupported),
    ("population_missing", _group_missing),
    ("key_content_missing", _content_missing),
    ("key_content_missing", _statement_missing),
    ("key_content_missing", _ingredient_missing),
    ("polarity", _reversed),
    ("polarity", _opposite),
    ("warning_missing", _prohibition_missing),
    ("unsupported_population", _group_unsupported),
    ("unsupported_warning", _warning_unsupported),
    ("unsupported_content", _content_unsupported),
)
