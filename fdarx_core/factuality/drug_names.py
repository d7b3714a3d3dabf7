"""Finds the drugs that an answer is about, by the names of labels, and by further names such as RxNorm's."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from fdarx_core.labels.drugs import Drug, DrugNames, drug_of
from fdarx_core.records import CheckedAnswer, Label, Passage, Product

_SALTS = (
    r"(?:sodium|potassium|calcium|magnesium|hydrochloride|hcl|tromethamine|maleate|besylate|sulfate|acetate|phosphate|"
    r"mesylate|tartrate|bitartrate|succinate|oxalate|citrate|fumarate|anhydrous|(?:mono|di|tri|hemi)hydrate|"
    r"propylene glycol solvate|tablets?|capsules?|injection|solution|suspension|gel|patch|usp|er|xr|dr|delayed|"
    r"extended|release|oral|topical|ophthalmic|chewable)"
)
_SALT = re.compile(rf"\b(?:{_SALTS}|and|for)\b", re.IGNORECASE)


@lru_cache(maxsize=4096)
def names_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds the names, without salt and dosage form, and each of their long words, ignoring case.

    Several in a row are one match, with the salts and dosage forms after them. It matches nothing if there are none.
    """
    bare = [without_salts(name) for name in names]
    parts = {one.lower() for one in (*names, *bare, *re.findall(r"[A-Za-z]{5,}", " ".join(bare))) if len(one) > 3}
    several = "|".join(re.escape(one) for one in sorted(parts, key=len, reverse=True))
    further = rf"(?:[\s,/-]+(?:(?:and|with|plus)\s+)?(?:{several}|{_SALTS})(?!\w))*"
    return re.compile(rf"(?<!\w)(?:{several})(?!\w){further}", re.IGNORECASE) if several else re.compile(r"(?!)")


def without_salts(name: str) -> str:
    """Return a drug name without salt and dosage form: "Naproxen Sodium Tablets" gives "Naproxen"."""
    return " ".join(_SALT.sub(" ", name).split()).strip(" ,/-")


class DrugNameIndex:
    """The drugs of all labels, and the labels of each.

    Args:
        labels: labels, each with its passages, which are read once.
        synonyms: names that no label has, each with its drug (`read_rxnorm`).
    """

    def __init__(
        self, labels: Iterable[tuple[Label, Sequence[Passage]]], synonyms: Iterable[tuple[str, Drug]] = ()
    ) -> None:
        self._labels: dict[Drug, list[str]] = defaultdict(list)
        self._set_ids: set[str] = set()
        self._names = DrugNames(self._kept(labels), synonyms)

    def _kept(self, labels: Iterable[tuple[Label, Sequence[Passage]]]) -> Iterator[tuple[list[Product], Iterable[str]]]:
        for label, passages in labels:
            set_id = sys.intern(label.set_id)
            self._set_ids.add(set_id)
            for drug in {drug_of(*label.products), *map(drug_of, label.products)}:
                self._labels[drug].append(set_id)
            yield label.products, (passage.text for passage in passages)

    def of(self, answer: CheckedAnswer) -> list[list[str]]:
        """Return the drugs that an answer is about, each as the set ids of its labels.

        That of its own label, else its drug by name, else those named in the question, else in the answer.
        """
        if answer.set_id in self._set_ids:
            return [[answer.set_id]]
        if answer.drug and (found := self.named(answer.drug)):
            return [found]
        for text in (answer.question, answer.answer):
            if drugs := dict.fromkeys(drug for mention in self._names.find(text) for drug in mention.drugs):
                return [self._labels[drug] for drug in drugs if drug in self._labels]
        return []

    def named(self, name: str) -> list[str]:
        """Return the labels of the drugs that a name has."""
        drugs = dict.fromkeys(drug for mention in self._names.find(name) for drug in mention.drugs)
        return list(dict.fromkeys(set_id for drug in drugs for set_id in self._labels.get(drug, ())))

    def names_in(self, text: str) -> list[str]:
        """Return the names of drugs in a text, as it has them."""
        return [mention.text for mention in self._names.find(text)]

    def substances_in(self, text: str) -> list[str]:
        """Return the active moieties of the drugs that a text names, in lower case."""
        return list(dict.fromkeys(one for mention in self._names.find(text) for one in mention.moieties))
