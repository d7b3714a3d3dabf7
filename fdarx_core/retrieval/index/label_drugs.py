"""The drugs of the labels of an index, the labels that a text asks for by their names, and completion of names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler

from fdarx_core.labels.drugs import Drug, DrugNames, Mention, Words, drug_of, words_of
from fdarx_core.labels.finding import medicine_names
from fdarx_core.records import LabelVersion, Product
from fdarx_core.retrieval.lexical import Integers
from fdarx_core.text.tokens import word_set

LEAST_SIMILARITY = 0.85
"""Jaro-Winkler similarity from which a name is offered in place of one that the labels lack."""


@dataclass(frozen=True, slots=True)
class NamedDrug:
    """A drug that a text names, with the numbers of the documents that are its labels.

    `own` are those of the products that have the name, or the word of a longer name, if it is that of a product and not
    of a substance, else all.
    """

    name: str
    drugs: tuple[Drug, ...]
    documents: tuple[int, ...]
    own: tuple[int, ...]


_QUESTION_WORDS = word_set("question_words") | word_set("label_words") | word_set("stem_stop_words")


_JOINT = re.compile(r"\s*[/+]\s*(?:[\w-]+\s*[/+ ]\s*)?")
"""What stands between the ingredients of a combination: "aspirin/extended-release dipyridamole"."""


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
        self._of_word: defaultdict[Words, dict[int, None]] = defaultdict(dict)
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
                for word in words_of(name):
                    self._of_word[(word,)][document] = None
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
        groups: list[list[Mention]] = []  # those that are written as one combination together, each other one alone
        for mention in mentions:
            if groups and _JOINT.fullmatch(text, groups[-1][-1].end, mention.start):
                groups[-1].append(mention)
            else:
                groups.append([mention])
        joined = list(map(self._joined, groups))
        if not any(joined) and (combined := self._combined(mentions)):
            return [combined]
        each = [combination or list(map(self._named, group)) for combination, group in zip(joined, groups, strict=True)]
        found: dict[tuple[int, ...], NamedDrug] = {}
        for drug in (drug for group in each for drug in group if drug.documents):
            found.setdefault(drug.own, drug)
        named = list(found.values())
        return [
            drug
            for drug in named
            if not any(other.documents == drug.documents and {*other.own} < {*drug.own} for other in named)
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
            name = " ".join(words)
            is_medicine = any(mention.exact and mention.text == name for mention in medicine_names().find(name))
            return written.issuperset(words) and (is_medicine or (alone and is_new))

        return [drug for drug in self.named(text) if is_name(words_of(drug.name)) and not others.named(drug.name)]

    def _combined(self, mentions: Sequence[Mention]) -> NamedDrug | None:
        """Return the combination of all drugs that are mentioned, if a label is of it and one drug has no label."""
        if len(mentions) < 2 or all(any(drug in self._of_drug for drug in mention.drugs) for mention in mentions):
            return None
        drug = Drug.of(pair for mention in mentions for drug in mention.drugs[:1] for pair in drug.pairs())
        documents = tuple(self._of_drug.get(drug, ()))
        name = " and ".join(mention.name for mention in mentions)
        return NamedDrug(name, (drug,), documents, documents) if documents else None

    def _joined(self, mentions: Sequence[Mention]) -> list[NamedDrug]:
        """Return the one combination whose ingredients are written as "aspirin/caffeine", with the fewest others."""
        if len(mentions) < 2:
            return []
        keys = frozenset(key for mention in mentions for drug in mention.drugs[:1] for key in drug.keys)
        wider = [drug for drug in self._of_drug if keys <= drug.keys]
        least = min((len(drug.keys) for drug in wider), default=0)
        drugs = tuple(drug for drug in wider if len(drug.keys) == least)
        documents = tuple(self.documents_of(drugs))
        name = " and ".join(mention.name for mention in mentions)
        return [NamedDrug(name, drugs, documents, documents)] if len(drugs) == 1 else []

    def _named(self, mention: Mention) -> NamedDrug:
        documents = self.documents_of(mention.drugs)
        if not documents:  # labels of combinations
            keys = [drug.keys for drug in mention.drugs]
            combined = [drug for drug in self._of_drug if any(own < drug.keys for own in keys)]
            documents = [document for drug in combined for document in self._of_drug[drug]]
        words = words_of(mention.name)
        having = self._of_name.get(words) or self._of_word.get(words) or {}
        own = () if self.names.is_substance(mention.name) else tuple(having)
        return NamedDrug(mention.name, mention.drugs, tuple(documents), own or tuple(documents))

    def absent(self, text: str) -> list[tuple[str, str]]:
        """Return the medicines that a text names and that no label here is of: the name as written, and the medicine.

        Medicines are known by RxNorm's names, where the user's cache has them, else not at all. A word that a text here
        has is no misspelt name.
        """
        if not len(self.names):
            return []
        covered = {at for mention in self.names.find(text) for at in range(mention.start, mention.end)}
        found: dict[str, str] = {}
        for mention in medicine_names().find(text):
            medicine = " and ".join(mention.moieties)
            is_name = mention.exact or not all(map(self.names.has_word, words_of(mention.text)))
            if is_name and covered.isdisjoint(range(mention.start, mention.end)) and not self.named(medicine):
                found.setdefault(medicine, mention.text)
        return [(written, medicine) for medicine, written in found.items()]

    def nearest(self, name: str, most: int = 3) -> list[str]:
        """Return the names of drugs of labels here that are spelt most like a name."""
        titles = dict.fromkeys(filter(None, self._titles))
        found = process.extract(name, list(titles), processor=str.casefold, scorer=JaroWinkler.similarity, limit=None)
        near = {title.casefold(): title for title, similarity, _ in reversed(found) if similarity >= LEAST_SIMILARITY}
        return list(reversed(near.values()))[:most]

    def drug_names(self, text: str) -> tuple[str, ...]:
        """Return the names of the drugs, in `Chunk.drug`, of the labels of all drugs that a text names."""
        return tuple(dict.fromkeys(self._titles[document] for drug in self.named(text) for document in drug.documents))

    def corrected(self, text: str) -> str:
        """Return a text with the names of drugs in place of their misspellings."""
        for mention in reversed(self.names.find(text)):
            if not mention.exact:
                text = text[: mention.start] + mention.name + text[mention.end :]
        return text


@dataclass(frozen=True, slots=True)
class NameCompletion:
    """A name as filters take it. `stands_for` has the moieties of a drug that its name does not say, "" for none.
    `of_drug` says whether it is the name of a label's drug, or else the title of a document."""

    name: str
    stands_for: str = ""
    of_drug: bool = False


class NameCompleter:
    """Completes names. Case and white space are ignored, and a name that several labels have is listed once.

    Args:
        names: the name of each label's drug with the label's version, or the title of a document with None.
    """

    def __init__(self, names: Iterable[tuple[str, LabelVersion | None]]) -> None:
        found: dict[str, tuple[str, list[LabelVersion]]] = {}
        for name, label in names:
            if key := normalize_name(name):
                found.setdefault(key, (name, []))[1].extend([label] if label else [])
        self._rows: list[tuple[str, NameCompletion, set[str]]] = []
        for key in sorted(found):
            name, labels = found[key]
            moieties = dict.fromkeys(moiety for label in labels for moiety in label.moieties)
            other = [moiety.lower() for moiety in moieties if normalize_name(moiety) not in key]
            aliases = {normalize_name(alias) for label in labels for alias in names_of_label(label)}
            self._rows.append((key, NameCompletion(name, ", ".join(other), bool(labels)), aliases))

    def complete(self, prefix: str, limit: int) -> list[NameCompletion]:
        """Return at most `limit` names that begin with the prefix, then those with a word of another name of the drug
        that begins so, then those that contain the prefix; each group is in alphabetical order."""
        wanted = normalize_name(prefix)
        ranked: list[list[NameCompletion]] = [[], [], []]
        for key, completion, aliases in self._rows:
            if key.startswith(wanted):
                ranked[0].append(completion)
            elif any(alias.startswith(wanted) or f" {wanted}" in alias for alias in aliases):
                ranked[1].append(completion)
            elif wanted in key:
                ranked[2].append(completion)
        return [completion for group in ranked for completion in group][: max(0, limit)]


def normalize_name(name: str) -> str:
    """Return a name in the form in which names are compared: case-folded, with single spaces."""
    return " ".join(name.casefold().split())


def names_of_label(label: LabelVersion) -> set[str]:
    """Return the names of a label's own drug: its products, their active substances, and the moieties of these."""
    products = (name for product in label.products for name in (*product.names, *product.substances, *product.moieties))
    return {*filter(None, (*products, *label.moieties))}
