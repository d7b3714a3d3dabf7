"""The check of an answer before it is sent: each statement is compared with the passages that it cites.

A statement is removed if one of these applies:

- contradicted: the cited passages contradict it.
- other drug: it, or every label that it cites, is of another drug.
- number: it has a number that it does not compute from others and that is not in the cited passages (without a
  citation: in any passage), in the question, or in the date and version of the label.
- instructions: it repeats the instructions to the model, and the verifier does not find it supported.

Other statements that the verifier does not find supported or cannot decide, and those without a citation, are kept and
marked as unverified. Rules compare numbers and drugs; the verifier decides everything else. The answer is withheld if
all statements are removed, or if no statement with a citation is left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal

from fdarx_core.labels.drugs import Drug, drug_of
from fdarx_core.rag.cited_text import Statement
from fdarx_core.rag.flow import RetrievalResult
from fdarx_core.rag.locating import LONGEST_SPAN, Locator, TextSpan
from fdarx_core.rag.search import RagBackend
from fdarx_core.rag.verifying import StatementVerifier, medicines_in
from fdarx_core.records import SearchHit
from fdarx_core.text.numbers import number_strings
from fdarx_core.text.refusals import DOCUMENTS_SAY_NOTHING, LABELS_SAY_NOTHING, declines
from fdarx_core.text.tokens import contains_name, words_of
from fdarx_core.verify import TextPair, Verdict, verify
from fdarx_core.verify.exact import ENGINE as EXACT
from fdarx_core.verify.numbers import number_not_in

DropReason = Literal["drug", "number", "contradicted", "uncited", "instructions"]
"""Why a statement is removed; `DROP_REASONS` explains the reasons."""
DROP_REASONS: dict[DropReason, str] = {
    "contradicted": "contradicted by the passages cited",
    "drug": "about a drug that the passages cited are not about",
    "number": "with a number that the passages cited do not have",
    "uncited": "without a citation",
    "instructions": "a repetition of the instructions to the model",
}
INSTRUCTIONS_WITHHELD = "(a repetition of the instructions to the model)"
"""What stands for the text of such a statement."""
StatementVerdict = Literal["supported", "unsupported", "undecided"]
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

    `statements` counts the supported, the unsupported, the undecided, the uncited and the dropped ones. Unsupported,
    undecided and uncited ones stay and are unverified; `uncited` are those without a citation. `verifier` is the name
    of the model or engine whose verdicts these are.
    """

    statements: int = 0
    supported: int = 0
    unsupported: int = 0
    undecided: int = 0
    uncited: int = 0
    dropped: list[DroppedStatement] = field(default_factory=list)
    verifier: str = ""

    def add(self, other: GateReport) -> None:
        """Count the statements of another answer as well."""
        self.statements += other.statements
        self.supported += other.supported
        self.unsupported += other.unsupported
        self.undecided += other.undecided
        self.uncited += other.uncited
        self.dropped += other.dropped
        self.verifier = self.verifier or other.verifier


def dropped_text(dropped: Sequence[DroppedStatement]) -> str:
    """Return how many statements were removed, by reason: "2 without a citation"."""
    counts = Counter(statement.reason for statement in dropped)
    return ", ".join(f"{counts[reason]} {words}" for reason, words in DROP_REASONS.items() if counts[reason])


def withheld_text(dropped: Sequence[DroppedStatement]) -> str:
    """Return the text in place of an answer of which nothing passed the gate."""
    return f"The answer of the model is withheld, because no statement of it passed the check: {dropped_text(dropped)}."


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A statement that the gate has checked.

    Attributes:
        statement: the statement.
        cited: the numbers of the contexts that it cites, without those of another drug.
        places: the places that bear it out, each with the number of its context; a place of no characters stands for
            the whole context, or for the version of the label.
        verdict: that of the verifier; undecided for statements that it was not asked about.
        reason: why it is removed; None if it is kept.
    """

    statement: Statement
    cited: tuple[int, ...] = ()
    places: tuple[tuple[int, TextSpan], ...] = ()
    verdict: StatementVerdict = "undecided"
    reason: DropReason | None = None


class AnswerGate:
    """Checks the statements of answers to one question from its contexts.

    Args:
        result: the question, its contexts, and the drugs that it names; without any, the labels may be of any drug.
        backend: finds the medicines that statements name.
        verifier: verifies the statements.
        drug: the name of the drug that is answered for, "" where there is not exactly one.
        citable: the numbers of the contexts that may be cited.
        instructions: the system message to the model.
        together: whether each statement is verified against all citable contexts, as one that compares drugs is: the
            others show what it leaves out. It is then no quotation.
    """

    def __init__(
        self,
        result: RetrievalResult,
        backend: RagBackend,
        verifier: StatementVerifier,
        drug: str,
        citable: Collection[int],
        instructions: str,
        *,
        together: bool = False,
    ) -> None:
        contexts, drugs = result.contexts, result.drugs
        self._question, self._contexts, self._drug = result.question, contexts, drug
        self._backend, self._verifier = backend, verifier
        # the refusal that the instructions ask for may be a statement
        self._citable, self._instructions = citable, instructions.replace(DOCUMENTS_SAY_NOTHING, "")
        self._together = together
        self._names = [_names(hit) for hit in contexts]
        titles = [" ".join((hit.title, hit.section, *names)) for hit, names in zip(contexts, self._names, strict=True)]
        self._locator = Locator(result.question, [hit.text for hit in contexts], titles)
        self._of_asked_drug = [not drugs or not hit.drug or _is_of(hit, drugs) for hit in contexts]
        self._shown = "\n".join([result.question, *titles, *(hit.text for hit in contexts)])

    async def check(self, statements: Sequence[Statement]) -> list[CheckedStatement]:
        """Return the statements, checked, in order. The verifier is asked about those that are no quotations."""
        checked = [self._located(statement) for statement in statements]
        asked = [
            at for at, item in enumerate(checked) if item.places and not item.reason and not item.statement.is_frame
        ]
        evidence = {at: self._evidence(checked[at]) for at in asked}
        quoted = [] if self._together else asked
        verdicts = dict(zip(quoted, verify([evidence[at][0] for at in quoted], EXACT), strict=True))
        paraphrases = [at for at in asked if at not in verdicts or verdicts[at].verdict != "supported"]
        if paraphrases and (self._together or self._verifier.name != EXACT.name):
            found = await self._verifier.verify([evidence[at][0] for at in paraphrases])
            verdicts |= zip(paraphrases, found, strict=True)
        for at, verdict in verdicts.items():
            checked[at] = _judged(checked[at], evidence[at][1], verdict)
        checked = await self._without_unknown_drugs(checked)
        for at, item in enumerate(checked):
            if item.verdict != "supported" and repeats(item.statement.text, self._instructions):
                withheld = replace(item.statement, text=INSTRUCTIONS_WITHHELD)
                checked[at] = replace(item, statement=withheld, reason="instructions")
        return checked

    def _located(self, statement: Statement) -> CheckedStatement:
        """Return a statement with its places, or the reason why it is removed before the verifier is asked."""
        if not statement.citations or declines(statement.text):
            missing = not statement.is_frame and self._lacks_number(statement, range(1, len(self._contexts) + 1))
            return CheckedStatement(statement, reason="number" if missing else None)
        cited = [(text, self._of_the_drug(statement, numbers)) for text, numbers in statement.citations]
        numbers = sorted({number for _, group in cited for number in group})
        if not numbers:
            return CheckedStatement(statement, reason=None if statement.is_frame else "drug")
        if not statement.is_frame and self._lacks_number(statement, numbers):
            return CheckedStatement(statement, reason="number")
        found = [
            (context + 1, span)
            for text, group in cited
            for context, span in self._locator.find(text, [number - 1 for number in group])
        ]
        if not found and not statement.is_frame:
            found = [(number, TextSpan(0, 0, frozenset())) for number in numbers]
        return CheckedStatement(statement, tuple(numbers), tuple(found))

    def _lacks_number(self, statement: Statement, numbers: Sequence[int]) -> bool:
        """Return whether a statement has a number that neither some contexts, nor their titles, nor the question have.

        Of the date and the version of their labels it may have the numbers without a unit.
        """
        hits = [self._contexts[number - 1] for number in numbers]
        above = dict.fromkeys(
            part for hit in hits for part in (_heading(hit), hit.chunk.section_number, hit.chunk.table_header)
        )
        names = dict.fromkeys(name for number in numbers for name in self._names[number - 1])
        texts = (*(hit.text for hit in hits), *above, *names, self._question)
        versions = " ".join(f"{hit.effective_date} {hit.label.version}" for hit in hits if hit.effective_date)
        return bool(number_not_in(statement.reading, texts, frozenset(map(float, number_strings(versions)))))

    def _evidence(self, checked: CheckedStatement) -> tuple[TextPair, _Places]:
        """Return what the verifier is shown: the whole contexts that are cited, each with its titles and version."""
        numbers = sorted(self._citable) if self._together else checked.cited
        hits = [(number, self._contexts[number - 1]) for number in numbers]
        text, contexts = "", dict[int, tuple[int, int]]()
        for number, hit in hits:
            text += "\n\n" if text else ""
            above = (_heading(hit) if len(hits) > 1 else "", hit.chunk.table_header)
            text += "".join(f"{line}\n" for line in above if line)
            contexts[number] = len(text), len(text) + len(hit.text)
            text += hit.text
            if hit.effective_date:
                text += f"\nThe label of {hit.drug} by {hit.label.labeler} has the effective date {hit.effective_date}"
                text += f" and the version {hit.label.version}."
        drug = self._drug or (hits[0][1].drug if len(hits) == 1 else "")
        heading = _heading(hits[0][1]) if len(hits) == 1 else ""
        return TextPair(text, checked.statement.reading, drug, self._question, heading), contexts

    async def _without_unknown_drugs(self, checked: list[CheckedStatement]) -> list[CheckedStatement]:
        """Return the statements; one that names a medicine which nothing shown names is removed.

        A supported statement may name a drug otherwise than its passage does: the verifier knows more names.
        """
        doubtful = [at for at, item in enumerate(checked) if not item.reason and item.verdict != "supported"]
        if not doubtful:
            return checked
        named = await medicines_in(self._backend, [checked[at].statement.text for at in doubtful])
        for at, medicines in zip(doubtful, named, strict=True):
            if all(any(contains_name(self._shown, name) for name in names) for names in medicines):
                continue
            words = (word for word in words_of(checked[at].statement.text) if word.isalpha())
            if not self._shown_words.issuperset(words):
                checked[at] = replace(checked[at], reason="drug")
        return checked

    @cached_property
    def _shown_words(self) -> frozenset[str]:
        return frozenset(words_of(self._shown))

    def _of_the_drug(self, statement: Statement, numbers: Sequence[int]) -> list[int]:
        """Return the citable contexts of a drug that the question names and, if it names one, the statement.

        A context of no drug, and one that names a drug of the statement in its text, is of that drug too.
        """
        names = [names for names in self._names if any(contains_name(statement.reading, name) for name in names)]

        def is_named(number: int) -> bool:
            hit = self._contexts[number - 1]
            if not names or not hit.drug or self._names[number - 1] in names:
                return True
            return any(contains_name(hit.text, name) for own in names for name in own)

        return [
            number
            for number in numbers
            if number in self._citable and self._of_asked_drug[number - 1] and is_named(number)
        ]


_Places = dict[int, tuple[int, int]]
"""The place of each context in the text of several."""


def _judged(checked: CheckedStatement, contexts: _Places, found: Verdict) -> CheckedStatement:
    """Return a statement with a verdict; it rests on the place that decides, where the verifier names one."""
    if found.other_drug:
        return replace(checked, reason="drug")
    if found.verdict == "contradicted":
        return replace(checked, reason="contradicted")
    places = checked.places
    start, end = found.span or (0, 0)
    for number, (first, last) in contexts.items():
        if (
            number in checked.cited
            and first <= start < end <= last
            and (start, end) != (first, last)
            and end - start <= LONGEST_SPAN
        ):
            others = (place for place in places if place[0] != number and place[1].end)
            places = (*others, (number, TextSpan(start - first, end - first, frozenset())))
    return replace(checked, verdict=found.verdict, places=places)


def repeats(text: str, instructions: str) -> bool:
    """Return whether a text has six consecutive words of the instructions, or consists of four or five of them."""
    length = min(_REPEATED_WORDS, len(_WORD.findall(text.casefold())))
    return length >= _LEAST_REPEATED_WORDS and not _runs(text, length).isdisjoint(_runs(instructions, length))


@lru_cache(maxsize=64)
def _runs(text: str, length: int) -> frozenset[tuple[str, ...]]:
    """Return all runs of so many words."""
    words = _WORD.findall(text.casefold())
    return frozenset(tuple(words[at : at + length]) for at in range(len(words) - length + 1))


def _is_of(hit: SearchHit, drugs: Sequence[Drug]) -> bool:
    """Return whether the label of a hit is of one of the drugs, alone or in combination."""
    keys = drug_of(*hit.label.products).keys or Drug.of([(hit.drug, "")]).keys
    return any(drug.keys & keys for drug in drugs)


def _heading(hit: SearchHit) -> str:
    """Return the titles above the text of a hit: of its document, with the active moieties, and of its sections."""
    active = f" (active moieties: {', '.join(hit.moieties)})" if hit.moieties else ""
    return f"{hit.title}{active}" + (f" > {hit.section}" if hit.section else "")


def _names(hit: SearchHit) -> list[str]:
    """Return the names of the drug of a label: of its products, substances and moieties; none for other documents."""
    products = [name for product in hit.label.products for name in (*product.names, *product.substances)]
    return list(dict.fromkeys(filter(None, (hit.drug, *hit.moieties, *products))))
