"""Drugs as sets of active moieties, and the drugs that a text names, exactly or with a typing error."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rapidfuzz import process
from rapidfuzz.distance import OSA

from fdarx_core.records import Product

SHORTEST_NAME = 3
"""Letters of the shortest name that is looked for in texts."""
MIN_LETTERS_ONE_ERROR, MIN_LETTERS_FIRST_LETTER_ERROR, MIN_LETTERS_TWO_ERRORS = 5, 7, 9
"""Letters of the shortest names that are recognized with one error, with one error in the first letter, and with two
errors. In other medical texts only the bound on errors in the first letter prevents that "iodine" is taken for Lodine,
"duloxetine" for fluoxetine and "robotic" for Urobiotic."""
MOST_DRUGS, LEAST_DRUGS, ORDINARY_SHARE = 2 / 3, 20, 0.1
"""The name of a substance is an ordinary word ("water") if labels of more than the share `MOST_DRUGS` of the drugs have
it, and the labels are of at least `LEAST_DRUGS` drugs. A name of several words is ordinary if labels of more than the
share `ORDINARY_SHARE` of the drugs have each of them."""

WORD = re.compile(r"[^\W_]+")
_PLAIN_WORD = re.compile(r"(?<![\w.@])[^\W\d_]+(?![\w@]|\.\w)")  # no part of an address

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drug:
    """A drug: the set of its active moieties. Two drugs are equal if they have the same `keys`.

    `keys` are UNIIs, or names where SPL gives no UNII; `moieties` and `uniis` are aligned.
    """

    keys: frozenset[str]
    moieties: tuple[str, ...] = field(default=(), compare=False)
    uniis: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, moieties: Iterable[tuple[str, str]]) -> Drug:
        """Return the drug with these moieties, each a name and a UNII, or ""."""
        found = {unii or " ".join(words_of(name)): (name.lower(), unii) for name, unii in moieties}
        rows = [found[key] for key in sorted(found)]
        return cls(frozenset(found), tuple(name for name, _ in rows), tuple(unii for _, unii in rows))

    @property
    def id(self) -> str:
        """The sorted keys, joined by "+"; "" without a moiety."""
        return "+".join(sorted(self.keys))

    def pairs(self) -> list[tuple[str, str]]:
        """Return the name and the UNII of each moiety."""
        return list(zip(self.moieties, self.uniis, strict=True))


@dataclass(frozen=True, slots=True)
class Mention:
    """A place in a text that names drugs: one, or several that share the name. `name` is as labels write it."""

    start: int
    end: int
    text: str
    name: str
    drugs: tuple[Drug, ...]
    exact: bool

    @property
    def moieties(self) -> list[str]:
        """The names of the active moieties of the drugs."""
        return [name for name, _ in self._pairs()]

    @property
    def uniis(self) -> list[str]:
        """The UNIIs of `moieties`, "" where SPL gives none."""
        return [unii for _, unii in self._pairs()]

    def _pairs(self) -> dict[tuple[str, str], None]:
        return dict.fromkeys(pair for drug in self.drugs for pair in drug.pairs())


def words_of(name: str) -> Words:
    """Return the words of a name in the form in which names are compared: without case and signs."""
    return tuple(WORD.findall(name.casefold()))


def drug_of(*products: Product) -> Drug:
    """Return the drug that products are, taken together. A substance counts as its own moiety if SPL gives none."""
    return Drug.of(pair for product in products for _, pair in _ingredients(product))


def _ingredients(product: Product) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each active substance with the name and UNII of a moiety."""
    columns = product.substances, product.substance_uniis, product.moieties, product.moiety_uniis
    for substance, unii, moiety, moiety_unii in zip(*columns, strict=True):
        yield substance, (moiety, moiety_unii) if moiety else (substance, unii)


class DrugNames:
    """An index of the names of drugs: brand and generic names, substances and moieties of all products and kit parts.

    Args:
        labels: the products of each label with its texts; no products with the texts of another document. From the
            texts the index learns which names are ordinary words, and which words are no misspelt names, because texts
            on other drugs have them. They are read once.
        synonyms: further names with their drugs, which are used where the labels do not have the name.
    """

    def __init__(
        self, labels: Iterable[tuple[Sequence[Product], Iterable[str]]], synonyms: Iterable[tuple[str, Drug]] = ()
    ) -> None:
        seen = _Seen()
        for products, texts in labels:
            seen.add(products, texts)
        salts = seen.salts()
        seen.add_without(salts)
        further: dict[Words, dict[Drug, None]] = defaultdict(dict)
        for name, drug in synonyms:
            further[words_of(name)][seen.known(drug)] = None
        names: dict[Words, tuple[Drug, ...]] = {}
        for group in (seen.substances, seen.products, further):
            for words, named in group.items():
                if sum(map(len, words)) >= SHORTEST_NAME and (len(words) > 1 or words[0] not in salts):
                    names.setdefault(words, tuple(named))
        for word, drugs in seen.brand_words().items():
            names.setdefault((word,), drugs)
        self._names = names
        self._substances = frozenset(seen.substances)
        self._longest = max(map(len, names), default=0)
        self._ordinary = {words for words, drugs in names.items() if seen.is_ordinary(words, drugs)}
        self._moieties_with = seen.moieties_with()
        self._targets: dict[str, frozenset[Drug]] = {}
        for words, drugs in names.items():
            for word in filter(str.isalpha, words):
                alone = frozenset(names.get((word,), drugs))
                self._targets[word] = alone.union(self._targets.get(word, ()))

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._names)

    def has_word(self, word: str) -> bool:
        """Return whether a name or a text of the labels has a word."""
        return word in self._targets or word in self._moieties_with

    def is_substance(self, name: str) -> bool:
        """Return whether a name is that of a substance or moiety, also without salts, and not of a product only."""
        return words_of(name) in self._substances

    def find(self, text: str) -> list[Mention]:
        """Return the places of a text that name drugs, in order; of overlapping names the longest.

        Case and signs between words are ignored. A name that is also an ordinary word counts only if it is written
        with capitals among words that are not. Words that are no name may be misspelt names, see `corrected`.
        """
        places = list(WORD.finditer(text)) if self._names else []
        words = [place.group().casefold() for place in places]
        fixed = [self.corrected(word) for word in words]
        found: list[Mention] = []
        at = 0
        while at < len(words):
            ends = range(min(len(words), at + self._longest), at, -1)
            exact = next((end for end in ends if self._is_named(text, places, words, at, end)), 0)
            misspelt = (end for end in ends if fixed[at:end] != words[at:end] and tuple(fixed[at:end]) in self._names)
            end = exact or next(misspelt, 0)
            if end:
                name = tuple(words[at:end] if exact else fixed[at:end])
                start, stop = places[at].start(), places[end - 1].end()
                found.append(Mention(start, stop, text[start:stop], " ".join(name), self._names[name], bool(exact)))
            at = end or at + 1
        return found

    def corrected(self, word: str) -> str:
        """Return the word of a name that a word is with a typing error, or two if it is long; else the word itself.

        An error is a letter more, less, changed, or two swapped. There is no correction for a word that labels of other
        drugs have, or that is as near to the name of another drug. Without texts only long names are recognized.
        """
        having = self._moieties_with.get(word)
        shortest = MIN_LETTERS_ONE_ERROR if self._moieties_with else MIN_LETTERS_TWO_ERRORS
        too_short = len(word) < shortest - 2
        if too_short or not word.isalpha() or word in self._targets or having == frozenset():
            return word
        near = process.extract(word, list(self._targets), scorer=OSA.distance, score_cutoff=2, limit=None)
        least = min((edits for _, edits, _ in near), default=0)
        nearest = [name for name, edits, _ in near if edits == least]
        misspelt = [name for name in nearest if len(name) >= shortest and _is_near(word, name, least)]
        if not misspelt or len({self._targets[name] for name in nearest}) > 1:
            return word
        own = frozenset(key for drug in self._targets[misspelt[0]] for key in drug.keys)
        return misspelt[0] if having is None or own & having else word

    def _is_named(self, text: str, places: list[re.Match[str]], words: list[str], at: int, end: int) -> bool:
        name = tuple(words[at:end])
        if name not in self._ordinary:
            return name in self._names
        around = (*places[max(1, at - 1) : at], *places[end : end + 1])  # the first word has a capital anyway
        capital = all(text[place.start()].isupper() for place in (places[at], places[end - 1]))
        return at > 0 and capital and not any(text[place.start()].isupper() for place in around)


def _is_near(word: str, name: str, edits: int) -> bool:
    """Return whether so many edits are typing errors in a name of this length; its first letter is rarely mistyped."""
    if word[0] != name[0]:
        return edits <= 1 and len(name) >= MIN_LETTERS_FIRST_LETTER_ERROR
    return edits <= (2 if len(name) >= MIN_LETTERS_TWO_ERRORS else 1)


class _Seen:
    """What labels say of names: the drugs of each, and the drugs in whose labels each word stands.

    The drugs of a word are the bits of an integer: bit N stands for the Nth of `_labels`.
    """

    def __init__(self) -> None:
        self.substances: dict[Words, dict[Drug, None]] = defaultdict(dict)
        self.products: dict[Words, dict[Drug, None]] = defaultdict(dict)
        self._salts: set[str] = set()
        self._labels: dict[Drug, int] = {}
        self._of_moiety: dict[str, int] = defaultdict(int)
        self._words: dict[str, int] = defaultdict(int)
        self._lower: dict[str, int] = defaultdict(int)

    def add(self, products: Sequence[Product], texts: Iterable[str]) -> None:
        for product in products:
            drug = drug_of(product)
            for name in product.names if drug.keys else ():
                self.products[words_of(name)][drug] = None
            self._add_substances(product)
        drug = drug_of(*products)
        bit = 1 << self._labels.setdefault(drug, len(self._labels))
        for key in drug.keys:
            self._of_moiety[key] |= bit
        for part in {word for text in texts for word in text.split()}:
            for word in _PLAIN_WORD.findall(part):
                self._words[word.casefold()] |= bit
                if word[0].islower():
                    self._lower[word.casefold()] |= bit

    def _add_substances(self, product: Product) -> None:
        moieties: dict[Words, list[tuple[str, str]]] = defaultdict(list)
        for substance, moiety in _ingredients(product):
            salt, base = words_of(substance), words_of(moiety[0])
            moieties[salt].append(moiety)
            self.substances[base][Drug.of([moiety])] = None
            if salt and base and (salt[0] == base[0] or {*salt} > {*base}):
                self._salts |= {*salt} ^ {*base}
        for salt, pairs in moieties.items():
            self.substances[salt][Drug.of(pairs)] = None

    def known(self, drug: Drug) -> Drug:
        """Return a drug with the moieties that labels have by these names."""
        named = [self.substances.get(words_of(name)) or {Drug.of([(name, unii)]): None} for name, unii in drug.pairs()]
        return Drug.of(pair for drugs in named for pair in next(iter(drugs)).pairs())

    def salts(self) -> frozenset[str]:
        """Return the words by which names of substances and of their moieties differ, such as "hydrochloride"."""
        return frozenset(word for word in self._salts if (word,) not in self.substances)

    def add_without(self, salts: frozenset[str]) -> None:
        """Add the names of substances without these words."""
        for words, drugs in list(self.substances.items()):
            self.substances.setdefault(tuple(word for word in words if word not in salts), drugs)

    def brand_words(self) -> dict[str, tuple[Drug, ...]]:
        """Return the words by which people call products with longer names ("Mirsolve" for New Mirsolve ER).

        Such a word is of the names of one drug alone, only labels of that drug have it, and after the first word of a
        name these never write it in lower case.
        """
        drugs_of_word: dict[str, dict[Drug, None]] = defaultdict(dict)
        first: set[str] = set()
        for words, drugs in self.products.items():
            if len(words) > 1:
                first.add(words[0])
                for word in words:
                    drugs_of_word[word] |= drugs
        return {
            word: tuple(drugs)
            for word, drugs in drugs_of_word.items()
            if len(drugs) == 1
            and word.isalpha()
            and len(word) >= MIN_LETTERS_ONE_ERROR
            and (word,) not in self.substances
            and (having := self._words.get(word, 0)) != 0
            and having & ~self._bits_of(drugs) == 0
            and (word in first or not self._lower.get(word))
        }

    def _bits_of(self, drugs: Iterable[Drug]) -> int:
        own = 0
        for key in {key for drug in drugs for key in drug.keys}:
            own |= self._of_moiety[key]
        return own

    def is_ordinary(self, words: Words, drugs: Iterable[Drug]) -> bool:
        """Return whether a name is an ordinary word, or is made of them.

        That of a substance is one if labels of most other drugs have it. Another name is one if other labels have its
        words mostly in lower case, and each of several words often.
        """
        own = self._bits_of(drugs)
        if words in self.substances:
            others = (self._words[words[0]] & ~own).bit_count() if len(words) == 1 else 0
            return len(self._labels) >= LEAST_DRUGS and others > MOST_DRUGS * len(self._labels)
        least = ORDINARY_SHARE * len(self._labels) if len(words) > 1 else 0
        for word in filter(str.isalpha, words):
            others = (self._words.get(word, 0) & ~own).bit_count()
            lower = (self._lower.get(word, 0) & ~own).bit_count()
            if (word,) in self.substances or lower <= least or 2 * lower <= others:
                return False
        return True

    def moieties_with(self) -> dict[str, frozenset[str]]:
        """Return each word with the moieties that all labels that have it share; none for a word of many drugs."""
        keys = [drug.keys for drug in self._labels]
        shared: dict[frozenset[str], frozenset[str]] = {}
        found: dict[str, frozenset[str]] = {}
        for word, bits in self._words.items():
            common = keys[bits.bit_length() - 1]
            while bits and common:
                lowest = bits & -bits
                common = common & keys[lowest.bit_length() - 1]
                bits ^= lowest
            found[word] = shared.setdefault(common, common)
        return found
