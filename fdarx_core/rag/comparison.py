"""Questions about several drugs: the contexts of each drug, and one answer out of an answer for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

from fdarx_core.labels.drugs import words_of
from fdarx_core.records import SearchHit

PARAGRAPH = "\n\n"
"""What stands between the paragraphs of two drugs."""
COMPARISON_HEADING = "Comparison:\n"
"""The first line of the paragraph that compares the drugs."""
CONTEXTS_OF_DRUG = 5
"""The least contexts of each drug that a question compares with others, if so many are found."""
GROUPED_DRUGS, CONTEXTS_OF_GROUP = 12, 2
"""The most drugs that answer a question which labels say something, and the contexts of each."""
GROUPED_CONTEXTS = GROUPED_DRUGS * CONTEXTS_OF_GROUP


@dataclass(frozen=True, slots=True)
class ComparedDrug:
    """A drug of a question that names several, or of one which labels say something.

    Attributes:
        name: the name that the question has for it, in the spelling of labels.
        moieties: the active moieties of its labels.
        contexts: the numbers of its contexts, from 1.
        title: the name as its labels write it.
    """

    name: str
    moieties: tuple[str, ...]
    contexts: tuple[int, ...]
    title: str

    @property
    def heading(self) -> str:
        """The first line of its paragraph."""
        return f"{self.title[:1].upper()}{self.title[1:]}:\n"


@dataclass(frozen=True, slots=True)
class AnswerGroup:
    """A drug in the answer to a question which labels say something.

    Attributes:
        drug: the name of the drug of the label that is cited first.
        moieties: its active moieties.
        labels: the number of its labels that have the cited passages, or nearly the same.
        newest: the latest effective date of these labels, in ISO 8601.
        citations: the numbers of the contexts that are cited for it.
    """

    drug: str
    moieties: tuple[str, ...]
    labels: int
    newest: str
    citations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """The part of an answer that is about one of several drugs.

    Attributes:
        drug: its name.
        moieties: the active moieties of its labels.
        answer_start, answer_end: the part of the answer's text, without the drug's heading.
        refused: whether it says that the contexts of this drug hold no answer.
    """

    drug: str
    moieties: tuple[str, ...]
    answer_start: int
    answer_end: int
    refused: bool


def shared_contexts(candidates: Sequence[SearchHit], asked: Sequence[str], keep: int) -> list[SearchHit]:
    """Return the first `keep` candidates; for a question that names several drugs, those of each drug in turn.

    Of several drugs each gets at least `CONTEXTS_OF_DRUG`, also where these are more than `keep` together, unless
    `keep` is too small for one of them.

    Args:
        candidates: the candidates, best first.
        asked: the names of the drugs that the question names: `named` of the hits.
        keep: how many to return.
    """
    own = _by_drug(candidates, asked)
    turns = zip_longest(*own.values()) if own else [range(len(candidates))]
    if keep >= CONTEXTS_OF_DRUG:
        keep = max(keep, len(own) * CONTEXTS_OF_DRUG)
    return [candidates[at] for turn in turns for at in turn if at is not None][:keep]


def compared_drugs(contexts: Sequence[SearchHit], asked: Sequence[str]) -> list[ComparedDrug]:
    """Return the drugs that a question names, in the order of their contexts; none if it names one or none.

    `asked` is that of `shared_contexts`.
    """
    drugs = list[ComparedDrug]()
    for name, places in _by_drug(contexts, asked).items():
        hits = [contexts[at] for at in places]
        moieties = dict.fromkeys(moiety for hit in hits for moiety in hit.moieties)
        written = (
            each for hit in hits for each in (hit.drug, *(n for product in hit.label.products for n in product.names))
        )
        title = next((title for title in written if words_of(title) == words_of(name)), name)
        drugs.append(ComparedDrug(name, tuple(moieties), tuple(at + 1 for at in places), title))
    return drugs


def _by_drug(hits: Sequence[SearchHit], asked: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of the hits of each drug that the question names; nothing if it names one or none.

    A hit that another query found belongs to the drug with the same moieties.
    """
    found = [hit for hit in hits if hit.named in asked]
    own: dict[str, list[int]] = {hit.named: [] for hit in found}
    if len(own) < 2:
        return {}
    of_moieties = {tuple(hit.moieties): hit.named for hit in reversed(found) if hit.moieties}
    for at, hit in enumerate(hits):
        name = hit.named if hit.named in own else of_moieties.get(tuple(hit.moieties), "")
        if name:
            own[name].append(at)
    return own


def grouped_contexts(hits: Sequence[SearchHit]) -> list[SearchHit]:
    """Return the first hits of each drug, drug by drug; documents of no drug are left out.

    There are at most `GROUPED_DRUGS` drugs with `CONTEXTS_OF_GROUP` hits each, in the order of their first hits.
    """
    own = defaultdict[tuple[str, ...], list[SearchHit]](list)
    for hit in hits:
        if hit.drug:
            own[_drug_key(hit)].append(hit)
    return [hit for group in list(own.values())[:GROUPED_DRUGS] for hit in group[:CONTEXTS_OF_GROUP]]


def grouped_drugs(contexts: Sequence[SearchHit]) -> list[ComparedDrug]:
    """Return the drugs of `grouped_contexts` with the numbers of their contexts."""
    drugs = list[ComparedDrug]()
    for _, group in groupby(enumerate(contexts, 1), key=lambda numbered: _drug_key(numbered[1])):
        hits = dict(group)
        first = next(iter(hits.values()))
        drugs.append(ComparedDrug(first.drug, tuple(first.moieties), tuple(hits), first.drug))
    return drugs


def _drug_key(hit: SearchHit) -> tuple[str, ...]:
    return tuple(sorted(hit.moieties)) or (hit.drug,)


def answer_groups(
    compared: Sequence[ComparedDrug], contexts: Sequence[SearchHit], cited: Sequence[int]
) -> list[AnswerGroup]:
    """Return the drugs of an answer that cites some of the contexts, in order."""
    groups = list[AnswerGroup]()
    for drug in compared:
        numbers = tuple(number for number in drug.contexts if number in cited)
        if numbers:
            hits = [contexts[number - 1] for number in numbers]
            dates = [
                date for hit in hits for date in (hit.effective_date, *(copy.effective_date for copy in hit.copied_by))
            ]
            labels = 1 + max(hit.copies for hit in hits)
            groups.append(AnswerGroup(drug.name, drug.moieties, labels, max(dates), numbers))
    return groups
