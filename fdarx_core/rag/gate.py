"""The gate before an answer leaves: each statement is located in what it cites and checked against it, or it goes.

A statement goes where all labels that it cites are of another drug than the question, where no place in its contexts
bears it out, where it has a number that these places lack, and where they contradict it. What the verification engine
leaves undecided stays, marked as unverified; so does a statement without a citation, unless it has a number that no
context has. A statement that is not supported and repeats the instructions to the model goes, and its text is withheld.
A statement of the date or the version of a label rests on the label's record, not on a place in its text;
its citation is of no characters. An answer of which no statement with a citation is left is a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

from fdarx_core.baseline.label_statements import version_sentence
from fdarx_core.baseline.numbers import number_strings
from fdarx_core.baseline.refusals import DOCUMENTS_SAY_NOTHING, LABELS_SAY_NOTHING, declines
from fdarx_core.baseline.stems import terms
from fdarx_core.baseline.tokens import contains_name
from fdarx_core.labels.drugs import Drug, drug_of
from fdarx_core.rag.cited_text import Statement
from fdarx_core.rag.locating import Locator, TextSpan, bearing_text
from fdarx_core.records import SearchHit
from fdarx_core.verify import TextPair, Verdict, VerificationEngine, verify
from fdarx_core.verify.numbers import missing_number

DropReason = Literal["drug", "place", "number", "contradicted", "unsupported", "uncited", "instructions"]
"""Why a statement goes: the drug of the label, no place that bears it out, a number that the place lacks, the verdict
of the engine, no citation in an answer of which no statement with a citation is left, or a repetition of the
instructions to the model."""
INSTRUCTIONS_WITHHELD = "(a repetition of the instructions to the model)"
"""What stands for the text of such a statement."""
_REPEATED_WORDS = 6
_LEAST_REPEATED_WORDS = 4
_WORD = re.compile(r"\w+")


def refusal_text(contexts: Sequence[SearchHit]) -> str:
    """Return the answer where the contexts do not answer the question."""
    return LABELS_SAY_NOTHING if all(hit.set_id for hit in contexts) else DOCUMENTS_SAY_NOTHING


@dataclass(frozen=True, slots=True)
class DroppedStatement:
    """A statement that the gate dropped, and why."""

    text: str
    reason: DropReason


@dataclass(slots=True)
class GateReport:
    """What the gate did to an answer.

    `statements` counts the supported, the undecided, the uncited and the dropped ones. `uncited` are those without a
    citation that stay; they are unverified, as the undecided ones are.
    """

    statements: int = 0
    supported: int = 0
    undecided: int = 0
    uncited: int = 0
    dropped: list[DroppedStatement] = field(default_factory=list)

    def add(self, other: GateReport) -> None:
        """Count the statements of another answer as well."""
        self.statements += other.statements
        self.supported += other.supported
        self.undecided += other.undecided
        self.uncited += other.uncited
        self.dropped += other.dropped


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A statement that the gate has checked.

    Attributes:
        statement: the statement.
        places: the places that bear it out, each with the number of its context.
        supported: whether the engine found it supported; what it left undecided is not.
        reason: why it goes; None where it stays.
    """

    statement: Statement
    places: tuple[tuple[int, TextSpan], ...] = ()
    supported: bool = False
    reason: DropReason | None = None


class AnswerGate:
    """Checks the statements of answers to one question from its contexts.

    Args:
        question: the question.
        contexts: the contexts.
        drugs: those that the question names; without any, the labels may be of any drug.
        verifier: the engine that verifies the statements.
        citable: the numbers of the contexts that may be cited.
        instructions: the system message to the model.
    """

    def __init__(
        self,
        question: str,
        contexts: Sequence[SearchHit],
        drugs: Sequence[Drug],
        verifier: VerificationEngine,
        citable: Collection[int],
        instructions: str,
    ) -> None:
        self._question, self._contexts, self._verifier = question, contexts, verifier
        # the refusal that the instructions ask for may be a statement
        self._citable, self._instructions = citable, instructions.replace(DOCUMENTS_SAY_NOTHING, "")
        self._names = [_names(hit) for hit in contexts]
        titles = [" ".join((hit.title, hit.section, *names)) for hit, names in zip(contexts, self._names, strict=True)]
        self._locator = Locator(question, [hit.text for hit in contexts], titles)
        self._of_asked_drug = [not drugs or not hit.drug or _is_of(hit, drugs) for hit in contexts]

    def check(self, statements: Sequence[Statement]) -> list[CheckedStatement]:
        """Return the statements, checked, in order; the engine is asked once."""
        checked = [self._located(one) for one in statements]
        pairs = {at: self._pairs(one) for at, one in enumerate(checked) if one.places and not one.statement.is_frame}
        judged = {at: pair for at, (pair, marked) in pairs.items() if not missing_number(marked)}
        verdicts = dict(zip(judged, verify([*judged.values()], self._verifier), strict=True)) if judged else {}
        for at in pairs:
            found = verdicts.get(at)
            reason = "number" if found is None else _reason(found)
            supported = found is not None and found.verdict == "supported"
            checked[at] = replace(checked[at], supported=supported, reason=reason)
        return [one if one.supported else self._without_instructions(one) for one in checked]

    def _without_instructions(self, one: CheckedStatement) -> CheckedStatement:
        """Return a statement that is not supported; one that repeats the instructions goes, without its text."""
        if not repeats(one.statement.text, self._instructions):
            return one
        return replace(one, statement=replace(one.statement, text=INSTRUCTIONS_WITHHELD), reason="instructions")

    def _located(self, one: Statement) -> CheckedStatement:
        """Return a statement with its places, or why it goes before any engine is asked."""
        if not one.citations or declines(one.text):
            number = not one.is_frame and self._has_unknown_number(one)
            return CheckedStatement(one, reason="number" if number else None)
        cited = [(text, self._of_the_drug(one, numbers)) for text, numbers in one.citations]
        places = tuple(
            (context + 1, span)
            for text, numbers in cited
            for context, span in self._locator.find(text, [number - 1 for number in numbers])
        )
        if not places:
            told = (n for _, numbers in cited for n in numbers if self._tells_version(one, self._contexts[n - 1]))
            places = tuple((n, TextSpan(0, 0, terms(one.text))) for n in told)
        reason: DropReason = "place" if any(numbers for _, numbers in cited) else "drug"
        return CheckedStatement(one, places, reason=None if places or one.is_frame else reason)

    @staticmethod
    def _tells_version(one: Statement, hit: SearchHit) -> bool:
        """Return whether a statement tells the date or the version of a label, and no other number."""
        numbers, version = number_strings(one.text), {str(hit.version)}
        date = number_strings(hit.effective_date) | {str(int(part)) for part in number_strings(hit.effective_date)}
        tells = hit.effective_date[:4] in numbers or (version <= numbers and "version" in one.text.lower())
        names = frozenset[str]().union(*map(number_strings, (hit.drug, hit.label.labeler)))
        return bool(hit.effective_date) and tells and numbers <= date | version | names

    def _has_unknown_number(self, one: Statement) -> bool:
        texts = "\n".join(part for hit in self._contexts for part in (hit.text, hit.section, hit.title))
        return bool(missing_number(TextPair(texts, one.text)))

    def _pairs(self, checked: CheckedStatement) -> tuple[TextPair, TextPair]:
        """Return the pair to verify, with whole sentences, and the one whose numbers are compared, with the places."""
        spans = dict[int, list[TextSpan]]()
        for number, span in checked.places:
            spans.setdefault(number, []).append(span)
        hits = {number: self._contexts[number - 1] for number in spans}
        heading = "\n".join(dict.fromkeys(part for hit in hits.values() for part in (hit.title, hit.section)))
        sentences = "\n".join(
            bearing_text(hits[number].text, found) if found[0].end else _version_of(hits[number])
            for number, found in spans.items()
        )
        marked = "\n".join(_text_at(hits[number], one) for number, one in checked.places)
        drug = next(iter(hits.values())).drug
        said = checked.statement.text
        return TextPair(sentences, said, drug, self._question, heading), TextPair(marked, said, heading=heading)

    def _of_the_drug(self, one: Statement, numbers: Sequence[int]) -> list[int]:
        """Return the citable contexts of a drug that the question names and, if it names one, the statement."""
        said = self._named_in(one.reading)
        return [
            number
            for number in numbers
            if number in self._citable
            and self._of_asked_drug[number - 1]
            and (not said or number - 1 in said or self._mentions(number, said))
        ]

    def _named_in(self, text: str) -> set[int]:
        """Return the contexts, counted from 0, whose drug a text names."""
        return {at for at, names in enumerate(self._names) if any(contains_name(text, name) for name in names)}

    def _mentions(self, number: int, named: set[int]) -> bool:
        """Return whether a context is of no drug, or its text names one of the drugs of other contexts."""
        hit = self._contexts[number - 1]
        return not hit.drug or any(contains_name(hit.text, name) for at in named for name in self._names[at])


def repeats(text: str, instructions: str) -> bool:
    """Return whether a text has six consecutive words of the instructions, or consists of four or five of them."""
    words = _words(text)
    length = min(_REPEATED_WORDS, len(words))
    if length < _LEAST_REPEATED_WORDS:
        return False
    known = _runs(instructions, length)
    return any(tuple(words[at : at + length]) in known for at in range(len(words) - length + 1))


@cache
def _runs(text: str, length: int) -> frozenset[tuple[str, ...]]:
    """Return all runs of so many words."""
    words = _words(text)
    return frozenset(tuple(words[at : at + length]) for at in range(len(words) - length + 1))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _is_of(hit: SearchHit, drugs: Sequence[Drug]) -> bool:
    """Return whether the label of a hit is of one of the drugs, alone or in combination."""
    keys = drug_of(*hit.label.products).keys or Drug.of([(hit.drug, "")]).keys
    return any(drug.keys & keys for drug in drugs)


def _text_at(hit: SearchHit, place: TextSpan) -> str:
    """Return the text of a place; that of a place without characters is the version of the label."""
    return hit.text[place.start : place.end] if place.end else _version_of(hit)


def _version_of(hit: SearchHit) -> str:
    return version_sentence(hit.drug, hit.label.labeler, hit.effective_date, hit.version)


def _names(hit: SearchHit) -> list[str]:
    """Return the names of the drug of a label: of its products, substances and moieties; none for other documents."""
    products = [name for one in hit.label.products for name in (*one.names, *one.substances)]
    return list(dict.fromkeys(filter(None, (hit.drug, *hit.moieties, *products))))


def _reason(verdict: Verdict) -> DropReason | None:
    found = verdict.verdict
    return found if found in ("contradicted", "unsupported") else None
