"""The drugs of the labels of an index, and the labels that a text asks for by their names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler

from fdarx_core.baseline.tokens import word_set
from fdarx_core.labels.drugs import WORD, Drug, DrugNames, Mention, Words, drug_of, words_of
from fdarx_core.labels.lexicon import medicine_names
from fdarx_core.records import Product
from fdarx_core.retrieval.lexical import Integers

LEAST_SIMILARITY = 0.85
"""Jaro-Winkler similarity from which a name is offered in place of one that the labels lack."""


@dataclass(frozen=True, slots=True)
class NamedDrug:
    """A drug that a text names, with the numbers of the documents that are its labels.

    `own` are those of the products that have the name, if it is that of a product and not of a substance, else all.
    """

    name: str
    drugs: tuple[Drug, ...]
    documents: tuple[int, ...]
    own: tuple[int, ...]


_QUESTION_WORDS = word_set("question_words") | word_set("label_words") | word_set("stem_stop_words")


class LabelDrugs:
    """The drugs of the labels of an index.

    Args:
        products: the products of each document, none for one that is no label.
        texts: the texts of each document; they are read once.
        drugs: the name of the drug of each document.

    Attributes:
        names: the names of the drugs.
        numbers: the number of the drug of each document, from 0, shape (documents,); -1 for a document without drug.
        own_words: the words that only names of one drug have, each with the number of the drug.
    """

    def __init__(
        self, products: Sequence[Sequence[Product]], texts: Iterable[Iterable[str]], drugs: Sequence[str]
    ) -> None:
        self.names = DrugNames(zip(products, texts, strict=True))
        self._titles = drugs
        self._of_drug: defaultdict[Drug, list[int]] = defaultdict(list)
        self._of_name: defaultdict[Words, dict[int, None]] = defaultdict(dict)
        numbers: dict[Drug, int] = {}
        words: defaultdict[str, set[int]] = defaultdict(set)
        self.numbers: Integers = np.full(len(products), -1, np.int64)
        for document, own in enumerate(products):
            if own:
                drug = drug_of(*own)
                self._of_drug[drug].append(document)
                self.numbers[document] = numbers.setdefault(drug, len(numbers))
            for name in (name for product in own for name in product.names):
                self._of_name[words_of(name)][document] = None
            for name in (name for product in own for name in (*product.names, *product.substances, *product.moieties)):
                for word in words_of(name):
                    words[word].add(int(self.numbers[document]))
        self.own_words = {word: drugs.pop() for word, drugs in words.items() if len(drugs) == 1}

    def documents_of(self, drugs: Iterable[Drug]) -> list[int]:
        """Return the numbers of the documents that are labels of some drugs."""
        return [document for drug in drugs for document in self._of_drug.get(drug, ())]

    def named(self, text: str) -> list[NamedDrug]:
        """Return the drugs that a text names and that labels here are of, each once, in order of first mention.

        A product that is named beside its substance ("Celebrex (celecoxib)") is meant alone. Drugs that are named
        together are their combination where labels are of that, and not of each drug alone.
        """
        mentions = self.names.find(text)
        if combined := self._combined(mentions):
            return [combined]
        found = {one.own: one for one in reversed([self._named(mention) for mention in mentions]) if one.documents}
        named = list(reversed(found.values()))
        return [
            one
            for one in named
            if not any(other.documents == one.documents and {*other.own} < {*one.own} for other in named)
        ]

    def named_beside(self, text: str, others: LabelDrugs) -> list[NamedDrug]:
        """Return the drugs that a text names, with regard to labels that are trusted more.

        Labels can state any words as names. Names of the others, misspelt names and words that questions or the other
        labels have do not count, unless they are names of medicines; other names count where the text has no name of
        the others.
        """
        written, alone = {*words_of(text)}, not others.named(text)

        def is_name(words: Words) -> bool:
            is_new = any(not others.names.has_word(word) and word not in _QUESTION_WORDS for word in words)
            return written.issuperset(words) and bool(medicine_names().medicine(words) or (alone and is_new))

        return [one for one in self.named(text) if is_name(words_of(one.name)) and not others.named(one.name)]

    def _combined(self, mentions: Sequence[Mention]) -> NamedDrug | None:
        """Return the combination of all drugs that are mentioned, if a label is of it and one drug has no label."""
        if len(mentions) < 2 or all(any(drug in self._of_drug for drug in one.drugs) for one in mentions):
            return None
        drug = Drug.of(pair for one in mentions for drug in one.drugs[:1] for pair in drug.pairs())
        documents = tuple(self._of_drug.get(drug, ()))
        name = " and ".join(mention.name for mention in mentions)
        return NamedDrug(name, (drug,), documents, documents) if documents else None

    def _named(self, mention: Mention) -> NamedDrug:
        documents = self.documents_of(mention.drugs)
        if not documents:  # labels of combinations
            keys = [drug.keys for drug in mention.drugs]
            combined = [drug for drug in self._of_drug if any(own < drug.keys for own in keys)]
            documents = [document for drug in combined for document in self._of_drug[drug]]
        own = () if self.names.is_substance(mention.name) else self._of_name.get(words_of(mention.name), ())
        return NamedDrug(mention.name, mention.drugs, tuple(documents), tuple(own) or tuple(documents))

    def absent(self, text: str) -> list[tuple[str, str]]:
        """Return the medicines that a text names and that no label here is of: the name as written, and the medicine.

        A word that no text here has may be a misspelt name of a medicine.
        """
        if not len(self.names):
            return []
        mentions = self.names.find(text)
        covered = {at for one in mentions for at in range(one.start, one.end)}
        places = [one for one in WORD.finditer(text) if one.start() not in covered]
        lexicon = medicine_names()
        found: dict[str, str] = {}
        at = 0
        while at < len(places):
            ends = range(min(len(places), at + lexicon.longest), at, -1)
            spans = ((end, text[places[at].start() : places[end - 1].end()]) for end in ends)
            end, medicine = next(
                ((end, one) for end, span in spans if (one := self._medicine(words_of(span)))), (0, "")
            )
            word = places[at].group().casefold()
            if not medicine and word.isalpha() and not self.names.has_word(word):
                medicine = lexicon.substance(word)
            written = text[places[at].start() : places[(end or at + 1) - 1].end()]
            if medicine and not self.named(medicine):
                found.setdefault(medicine, written)
            at = end or at + 1
        return [(written, medicine) for medicine, written in found.items()]

    def _medicine(self, words: Words) -> str:
        """Return the medicine that words mean, "" for a phrase that shares no word with its name.

        "Birth control pills" is such a phrase: labels have its words in lower case, and it means a class of medicines.
        Numbers are no name, although the lexicon has "2, 3" for a medicine.
        """
        if not any(word.isalpha() and len(word) > 1 for word in words):
            return ""
        medicine = medicine_names().medicine(words)
        is_phrase = self.names.is_phrase(words) and not {*words} & {*words_of(medicine)}
        return "" if is_phrase else medicine

    def nearest(self, name: str, most: int = 3) -> list[str]:
        """Return the names of drugs of labels here that are spelt most like a name."""
        titles = dict.fromkeys(filter(None, self._titles))
        found = process.extract(name, list(titles), processor=str.casefold, scorer=JaroWinkler.similarity, limit=None)
        near = {title.casefold(): title for title, similarity, _ in reversed(found) if similarity >= LEAST_SIMILARITY}
        return list(reversed(near.values()))[:most]

    def drug_names(self, text: str) -> tuple[str, ...]:
        """Return the names of the drugs, in `Chunk.drug`, of the labels of all drugs that a text names."""
        return tuple(dict.fromkeys(self._titles[document] for one in self.named(text) for document in one.documents))

    def corrected(self, text: str) -> str:
        """Return a text with the names of drugs in place of their misspellings."""
        for mention in reversed(self.names.find(text)):
            if not mention.exact:
                text = text[: mention.start] + mention.name + text[mention.end :]
        return text
