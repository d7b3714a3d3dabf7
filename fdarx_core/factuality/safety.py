"""Safety flags of answers by the labels of their drugs: forbidden uses and wrong doses. Source: FAS §3.2, §4."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from fdarx_core.baseline.numbers import find_quantities
from fdarx_core.baseline.sentences import sentence_spans
from fdarx_core.factuality.contraindications import Key, contraindications_of, key_of
from fdarx_core.factuality.doses import LabelDoses, lacks_dose, wrong_doses
from fdarx_core.factuality.drug_names import DrugNameIndex, names_pattern
from fdarx_core.factuality.prohibitions import FURTHER, TABLE
from fdarx_core.factuality.safety_terms import class_terms, classes_in, plain, safety_pattern, safety_terms, terms
from fdarx_core.labels.drugs import Drug
from fdarx_core.records import CheckedAnswer, Contraindication, Label, Passage, SafetyFlag
from fdarx_core.verify import TextPair, VerificationEngine, open_engine, verify

_LEAST_SHARE = 1 / 3
"""Of a drug's labels, where only its name is known: what fewer forbid may belong to another form of it."""
_ENOUGH = 0.75
"""The share of a subject's terms that a text must have."""
_APART = 2
"""The most other terms between those of a condition."""
_NEAR = 15
"""The most characters between a number and the word that says what it is of."""
_SEVERITY = re.compile(r"\b(?:mild|moderate|severe)\b")
_ALLERGY = re.compile(r"(?P<reactions>.*\bhypersensitivity\b.*?)\b(?:to|after)\b(?P<allergens>.*)")
_LIST = re.compile(r",\s*(?:and |or )?|(?:\s+|-)(?:and/or|and|or)\s+")
_DETAIL = safety_pattern("detail")
_EXAMPLES = safety_pattern("examples")
_ASKS_FOR_LIST = safety_pattern("asks_for_list")
_NO = safety_pattern("no_to_question")
_YES = safety_pattern("yes_to_question")


@dataclass(frozen=True, slots=True)
class _Said:
    """A text in plain words, its terms in order, and these with those of the classes of the drugs that it names.

    `listed` are also the terms of classes by the lists of labels, which may list conditions: they hold for drugs alone.
    """

    text: str
    words: tuple[str, ...]
    terms: frozenset[str]
    listed: frozenset[str]

    def __add__(self, other: _Said) -> _Said:
        sets = self.terms | other.terms, self.listed | other.listed
        return _Said(f"{self.text} {other.text}", self.words + other.words, *sets)


class SafetyFlagger:
    """Flags answers by the labels of their drugs.

    Args:
        labels: returns labels with all their passages, of which only numbers and prohibitions are kept.
        synonyms: names that no label has, each with its drug (`read_rxnorm`).
        engine: the engine of `verify` that decides between flags and what is to be reviewed.
    """

    def __init__(
        self,
        labels: Callable[[], Iterable[tuple[Label, Sequence[Passage]]]],
        synonyms: Iterable[tuple[str, Drug]] = (),
        engine: str | VerificationEngine = "exact",
    ) -> None:
        self._engine = open_engine(engine)
        self._rows: dict[str, list[tuple[Key, Contraindication]]] = {}
        self._doses: dict[str, LabelDoses] = {}
        self._own: dict[str, tuple[str, ...]] = {}
        self._classes: dict[str, frozenset[str]] = {}
        self.drugs = DrugNameIndex(self._kept(labels()), synonyms)

    def _kept(self, labels: Iterable[tuple[Label, Sequence[Passage]]]) -> Iterator[tuple[Label, Sequence[Passage]]]:
        shared: dict[object, object] = {}
        for label, passages in labels:
            self._rows[label.set_id] = [
                (key_of(row), row) for row in contraindications_of(label, passages, (*TABLE, *FURTHER))
            ]
            self._doses[label.set_id] = LabelDoses.of(passages, shared)
            self._own[label.set_id] = tuple(dict.fromkeys((label.drug_name, *label.aliases, *label.substances)))
            for name, found in classes_in(label, passages):
                self._classes[name] = self._classes.get(name, frozenset()) | found
            yield label, passages

    def flags_of(self, answer: CheckedAnswer) -> list[SafetyFlag]:
        """Return all flags of an answer, in order; none if it failed or refused, or has no drug with a label."""
        if answer.outcome != "answered" or not answer.answer.strip():
            return []
        drugs = self.drugs.of(answer)
        flags = [flag for set_ids in drugs for flag in self._forbidden(answer, set_ids)]
        if len(drugs) == 1:  # with several drugs it is not certain whose a dose is
            flags += self._wrong_doses(answer, drugs[0])
        return sorted(flags, key=lambda flag: (flag.start, flag.end, flag.kind, flag.subject))

    def _wrong_doses(self, answer: CheckedAnswer, set_ids: Sequence[str]) -> Iterator[SafetyFlag]:
        given = [(set_id, self._doses[set_id]) for set_id in set_ids if self._doses[set_id].told[0]]
        if not given:
            return
        set_id, (told, marker) = given[0][0], given[0][1].told
        names, labels = self._own[set_id], [one for _, one in given]
        if lacks_dose(answer.question, answer.answer):
            yield SafetyFlag(answer.id, "dose_missing", 0, 0, "", names[0], "dose", told, set_id, marker)
        for wrong in wrong_doses(answer, labels, names_pattern(names), self.drugs.names_in):
            start, end, subject, reason, status = wrong
            about = answer.answer[start:end], names[0], subject, f"{reason} {told}", set_id, marker, status
            yield SafetyFlag(answer.id, "dose_unsupported", start, end, *about)

    def _forbidden(self, answer: CheckedAnswer, set_ids: Sequence[str]) -> Iterator[SafetyFlag]:
        own = names_pattern(self._own[set_ids[0]])
        question = self._said(answer.question, own)
        spans = sentence_spans(answer.answer)
        told = [self._said(answer.answer[start:end], own) for start, end in spans]
        alike: dict[Key, list[Contraindication]] = defaultdict(list)
        for key, row in (one for set_id in set_ids for one in self._rows[set_id]):
            alike[key].append(row)
        candidates: dict[tuple[int, str], list[Contraindication]] = defaultdict(list)
        for (kind, _), rows in alike.items():
            if (place := self._place(rows[0], question, told)) is not None:
                candidates[place, kind] += rows
        for (place, kind), rows in candidates.items():
            row, (start, end) = rows[0], spans[place]
            if len({one.set_id for one in rows}) < _LEAST_SHARE * len(set_ids):
                continue
            text = answer.answer[start:end]
            hypothesis = text if self._speaks_of(row, told[place]) else f"{answer.question} {text}"
            [found] = verify([TextPair(row.statement, hypothesis, row.drug, answer.question)], self._engine)
            if status := {"contradicted": "flagged", "undecided": "to_review"}.get(found.verdict):
                about = text, self._own[row.set_id][0], row.subject, row.statement, row.set_id, row.marker, status
                yield SafetyFlag(answer.id, f"contraindicated_{kind}", start, end, *about)

    def _place(self, row: Contraindication, question: _Said, told: Sequence[_Said]) -> int | None:
        """Return the sentence that speaks of what the row forbids; None if the answer forbids it, or none does."""
        asked = self._speaks_of(row, question)
        texts = [[said] if asked else [said, question + said] for said in told]
        speaking = [at for at, either in enumerate(texts) if any(self._speaks_of(row, one) for one in either)]
        if not (asked or speaking) or self._excepted(row, [question, *told]):
            return None
        if _clears(question.text, [one.text for one in told], speaking):
            return None
        return next((at for at in speaking if not _warns(told[at].text)), None if speaking and not asked else 0)

    def _said(self, text: str, own: re.Pattern[str]) -> _Said:
        others = own.sub(" ", text)
        substances = " ; ".join(self.drugs.substances_in(others))
        named = f"{others} ; {substances}"
        known = frozenset((*terms(text), *terms(substances))) | class_terms(named, {})
        return _Said(plain(text), terms(text), known, known | class_terms(named, self._classes))

    def _speaks_of(self, row: Contraindication, said: _Said) -> bool:
        within = _within(plain(row.subject), said.text)
        if within is not None:
            return within
        own = frozenset(terms(" ".join(self._own[row.set_id])))
        known = said.listed if row.kind == "drug" else said.terms
        by_class = row.kind == "drug" or _ALLERGY.search(plain(row.subject))
        return any(
            len(one & known) >= _ENOUGH * len(one) if by_class and not one & own else _is_near(one, said.words)
            for one in _variants(row.subject, row.kind, row.statement)
            if (one - own) & known
        )

    def _excepted(self, row: Contraindication, said: Sequence[_Said]) -> bool:
        wanted = frozenset(terms(row.exceptions)) - frozenset(terms(row.subject))
        denied = re.compile(rf"(?<!\w)(?:{safety_terms()['denials']})(?: \S+){{1,4}}")
        found = frozenset(term for one in said for term in terms(denied.sub(" ", one.text.replace("n't", " n't"))))
        return bool(wanted) and 2 * len(wanted & found) >= len(wanted)


@lru_cache(maxsize=8192)
def _variants(subject: str, kind: str, statement: str) -> tuple[frozenset[str], ...]:
    """Return the terms of each of the names of a subject.

    These are, of drugs, each of a list; of allergies, each reaction with each allergen; else the subject, its parts,
    and the subject without what details it; and the examples that the statement gives in brackets after its last word.
    """
    examples = [
        name
        for found in _EXAMPLES.finditer(statement)
        if subject.endswith(found["of"])
        for name in _LIST.split(plain(found["names"]))
    ]
    bare = plain(re.sub(r"\([^()]*\)", " ", subject))
    allergy = _ALLERGY.search(bare)
    if allergy and kind != "drug":
        reactions, allergens = map(_LIST.split, allergy.group("reactions", "allergens"))
        names = [f"{reaction} {allergen}" for reaction in reactions for allergen in (*allergens, *examples)]
    else:
        names = [*_LIST.split(bare), *examples, *([] if kind == "drug" else [bare, _DETAIL.sub("", bare)])]
    return tuple(dict.fromkeys(frozenset(terms(one)) for one in names))


def _is_near(wanted: frozenset[str], words: Sequence[str]) -> bool:
    """Return whether enough of the wanted terms stand close together."""
    windows = (frozenset(words[at : at + len(wanted) + _APART]) for at in range(len(words)))
    return any(len(wanted & window) >= _ENOUGH * len(wanted) for window in windows)


def _within(subject: str, said: str) -> bool | None:
    """Return whether a text gives an amount within, or at, the bounds of a subject; None if one gives none.

    Another severity, or a time that is at least as long, is outside.
    """
    levels, told = set(_SEVERITY.findall(subject)), set(_SEVERITY.findall(said))
    if levels and told and not told & levels:
        return False
    found = [(one, set(terms(said[max(0, start - _NEAR) : start]))) for start, _, one in find_quantities(said)]
    for _, _, limit in (one for one in find_quantities(subject) if one[2].value):
        shares = [one.value / limit.value for one, _ in found if one.unit and one.unit == limit.unit]
        shares += [one.raw / limit.raw for one, before in found if not one.unit and before.intersection(terms(subject))]
        if shares and limit.bound:
            return min(shares) <= 1 if limit.bound == "<" else max(shares) >= 1
        if shares and limit.unit == "h" and min(shares) >= 1:
            return False
    return None


def _warns(said: str) -> bool:
    """Return whether a plain sentence has a cue of a warning that is not itself denied."""
    said = said.replace("n't", " n't")
    for found in re.finditer(rf"(?:(?<=\s)|^)(?:{'|'.join(safety_terms()['warns'])})(?!\w)", said):
        before = said[: found.start()].split()[-4:]
        if not re.search(rf"(?<![\w'])(?:{safety_terms()['denials']})(?!\w)", " ".join(before)):
            return True
    return False


def _clears(question: str, told: Sequence[str], speaking: Sequence[int]) -> bool:
    """Return whether an answer forbids the use that it is asked for, warns of it or leaves it to a professional."""
    first, asks_to_avoid = told[0], _warns(question)
    if asks_to_avoid and (_ASKS_FOR_LIST.match(question) or _YES.match(first)):
        return True
    if _NO.match(first):
        return not asks_to_avoid
    return bool(re.search(safety_terms()["defers"], first)) or any(_warns(told[at]) for at in (0, *speaking))
