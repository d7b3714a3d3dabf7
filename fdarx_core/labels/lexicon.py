"""Names of medicines beyond those of the labels at hand, to tell a medicine without a label from another word.

They are the names in the data file of the package drug-named-entity-recognition (MIT), which combines MedlinePlus,
MeSH and open parts of DrugBank, and those of RxNorm where the user has them. Of the package only the file is read.
"""

from __future__ import annotations

import bz2
import pickle
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rapidfuzz import process
from rapidfuzz.distance import OSA

from fdarx_core.labels.drugs import LONG, MIDDLE, Drug, Words, words_of
from fdarx_core.labels.rxnorm import names_folder, read_rxnorm, rxnorm_files

_PACKAGE, _FILE = "drug_named_entity_recognition", "drug_ner_dictionary.pkl.bz2"


class Lexicon:
    """Names of medicines, each with other names of the same medicine.

    Args:
        names: each name with the name of its medicine.
        rare: the same for substances that are rarely meant in ordinary texts, such as reagents and excipients.
    """

    def __init__(self, names: Iterable[tuple[str, str]], rare: Iterable[tuple[str, str]] = ()) -> None:
        self._medicine: dict[Words, str] = {}
        self._rare = {words_of(name): medicine for name, medicine in rare}
        self._by_letter: defaultdict[str, list[str]] = defaultdict(list)
        for name, medicine in names:
            words = words_of(name)
            if words:
                self._medicine.setdefault(words, medicine)
        for words in self._medicine:
            if len(words) == 1 and words[0].isalpha() and len(words[0]) >= MIDDLE:
                self._by_letter[words[0][0]].append(words[0])
        self.longest = max(map(len, self._medicine), default=0)

    def medicine(self, words: Words) -> str:
        """Return the name of the medicine that the words of a name mean, "" for other words."""
        return self._medicine.get(words, "")

    def substance(self, word: str) -> str:
        """Return the name of the medicine or of the rare substance that a word means, "" for another word.

        It is meant for words that ordinary texts do not have.
        """
        return self.medicine((word,)) or self._rare.get((word,), "") or self.medicine((self.corrected(word),))

    def corrected(self, word: str) -> str:
        """Return the name of one word that a word of at least six letters is with a typing error, "" for none."""
        if len(word) < MIDDLE - 1:
            return ""
        most = 2 if len(word) >= LONG else 1
        found = process.extractOne(word, self._by_letter[word[0]], scorer=OSA.distance, score_cutoff=most)
        return found[0] if found else ""


@lru_cache(maxsize=1)
def medicine_names() -> Lexicon:
    """Return the names of medicines of the package, and of RxNorm where the cache has them. Reading takes seconds."""
    medicines, rare = _read_package()
    return Lexicon([*medicines, *_read_rxnorm(str(names_folder()))], rare)


def _read_rxnorm(place: str) -> list[tuple[str, str]]:
    drugs: list[tuple[str, Drug]] = read_rxnorm(place) if Path(place).exists() and rxnorm_files(place) else []
    return [(name, " and ".join(drug.moieties)) for name, drug in drugs]


def _read_package() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the names of the medicines that MedlinePlus describes, and of the other substances in DrugBank."""
    spec = find_spec(_PACKAGE)
    assert spec is not None and spec.origin is not None
    with bz2.open(Path(spec.origin).with_name(_FILE)) as file:
        found = _PlainUnpickler(file).load()
    data = found["drug_canonical_to_data"]
    pairs = [(name, one) for name, medicines in found["drug_variant_to_canonical"].items() for one in medicines]
    medicines = [(name, one) for name, one in pairs if data.get(one, {}).get("medline_plus_id")]
    return medicines, [(name, one) for name, one in pairs if data.get(one, {}).get("drugbank_id")]


class _PlainUnpickler(pickle.Unpickler):
    """Reads dictionaries, lists, texts and numbers only, so that a file can run no code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"the file has an object of {module}.{name}")
