"""Which drug a claim speaks of, and whether a passage speaks of it: by set ids, and by exact names in its text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fdarx_core.labels.drugs import DrugNames, words_of
from fdarx_core.records import Evidence, Label, Product, from_table
from fdarx_core.storage import RunDirectory, read_table
from fdarx_core.text.stems import is_stop_word
from fdarx_core.text.tokens import contains_name

_WORD = re.compile(r"[^\W_]+(?:[-.,/][^\W_]+)*")

Subject = tuple[frozenset[str], frozenset[str]]
"""The set ids of the labels of the drugs that a claim speaks of, and their names; both empty for unknown drugs."""


@dataclass(frozen=True, slots=True)
class ClaimQuery:
    """A self-contained claim, the question that it answers, and the drug and label that the question is about."""

    claim: str
    question: str
    drug: str = ""
    set_id: str = ""

    @property
    def search_words(self) -> str:
        """The words to search with: the content words of the claim, and those of the drug that the claim lacks.

        Many claims say only "it", so that without the drug passages of other drugs are found where all labels are
        searched. The words of the question are left out, because they push passages down that bear on the claim.
        """
        own = _WORD.findall(self.claim)
        known = {word.lower() for word in own}
        words = [*own, *(word for word in _WORD.findall(self.drug) if word.lower() not in known)]
        return " ".join(word for word in words if word[0].isdigit() or not is_stop_word(word.lower()))


def subject_of(query: ClaimQuery, find: Callable[[str], Iterable[str]] = lambda text: ()) -> Subject:
    """Return the drugs that `find` finds in the claim; else those of the answer; else those in the question."""
    if named := frozenset(find(query.claim)):
        return frozenset(), named
    if query.drug or query.set_id:
        return frozenset({query.set_id} - {""}), frozenset({query.drug} - {""})
    return frozenset(), frozenset(find(query.question))


def drug_of(query: ClaimQuery, subject: Subject) -> str:
    """Return the name of the drug that a claim speaks of: that of its answer, else those of `subject`, "" for none."""
    set_ids, names = subject
    of_answer = query.set_id in set_ids or not names or any(contains_name(query.drug, name) for name in names)
    return query.drug if query.drug and of_answer else ", ".join(sorted(names))


def is_about(evidence: Evidence, subject: Subject) -> bool:
    """Return whether a passage is of a label, or of the drug, of the subject, or names it in its title or text."""
    set_ids, names = subject
    text = f"{evidence.drug}\n{evidence.title}\n{evidence.text}"
    return evidence.set_id in set_ids or any(contains_name(text, name) for name in names)


def product_named(*names: str) -> Product:
    """Return a product of which nothing but its names is known."""
    return Product([*names], [names[0]], [""], [""], [""])


class LabelNames:
    """The names of the drugs of a finished build's labels.

    Attributes:
        drugs: the name of the drug of each label, by set id.
        part_of: the name of the file that holds the passages of each label, by set id.
    """

    def __init__(self, run: RunDirectory) -> None:
        self.drugs: dict[str, str] = {}
        self.part_of: dict[str, str] = {}
        self._set_ids: defaultdict[str, set[str]] = defaultdict(set)
        products: list[list[Product]] = []
        for part in run.parts("labels"):
            for label in from_table(read_table(part), Label):
                self.drugs[label.set_id] = label.drug_name
                self.part_of[label.set_id] = part.name
                names = [label.drug_name, *label.aliases]
                products.append([*label.products, product_named(*names)])
                for name in names:
                    self._set_ids[" ".join(words_of(name))].add(label.set_id)
        self._names = DrugNames((own, ()) for own in products)

    def find(self, text: str) -> list[str]:
        """Return the names of drugs in a text, in lower case and without signs, in order."""
        return [mention.name for mention in self._names.find(text)]

    def labels_of(self, names: Iterable[str]) -> frozenset[str]:
        """Return the set ids of the labels that have any of the names."""
        return frozenset(set_id for name in names for set_id in self._set_ids.get(" ".join(words_of(name)), ()))

    def subjects(self, queries: Sequence[ClaimQuery]) -> list[Subject]:
        """Return the subject of each claim, with the labels of its drugs."""
        found = [subject_of(query, self.find) for query in queries]
        return [(set_ids | self.labels_of(names), names) for set_ids, names in found]
