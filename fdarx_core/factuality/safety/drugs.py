"""Which of the known labels an answer is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fdarx_core.factuality.safety.contraindications import without_salts
from fdarx_core.filters.text import plain
from fdarx_core.records import CheckedAnswer, Label

_LEAST_LETTERS = 4


class Drugs:
    """The names of all labels. `synonyms` (RxNorm's, say) give ingredients' names for names that no label has."""

    def __init__(self, labels: Iterable[Label], synonyms: Mapping[str, Sequence[str]] | None = None) -> None:
        self._labels = {label.set_id: label for label in labels}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for label in self._labels.values():
            for name in _names(label):
                self._by_name[name].append(label.set_id)
        self._synonyms = {plain(name): list(others) for name, others in (synonyms or {}).items()}
        self._longest = max((name.count(" ") for name in (*self._by_name, *self._synonyms)), default=1)

    def of(self, answer: CheckedAnswer) -> list[list[str]]:
        """The drugs that an answer is about, each as the set ids of its labels.

        That of its own label, else its drug by name, else those named in the question, else in the answer.
        """
        if answer.set_id in self._labels:
            return [[answer.set_id]]
        if answer.drug and (found := self.named(answer.drug)):
            return [found]
        for text in (answer.question, answer.answer):
            if drugs := dict.fromkeys(tuple(self.named(name)) for name in self.names_in(text)):
                return [list(set_ids) for set_ids in drugs if set_ids]
        return []

    def named(self, name: str) -> list[str]:
        """Labels of a drug by name: those with no other active ingredient, or whose own name it is."""
        wanted = [plain(name), *map(plain, self._synonyms.get(plain(name), ()))]
        found = [set_id for one in wanted for set_id in self._by_name.get(one, ())]
        bare = {plain(without_salts(one)) for one in wanted}
        return [set_id for set_id in dict.fromkeys(found) if self._is_of(self._labels[set_id], bare, wanted)]

    def names_in(self, text: str) -> list[str]:
        """The names of drugs with a label, or a synonym, that stand in a text; the longest at each place."""
        words = plain(text).split()
        found: dict[str, None] = {}
        at = 0
        while at < len(words):
            sizes = range(min(self._longest, len(words) - at), 0, -1)
            candidates = (" ".join(words[at : at + size]) for size in sizes)
            name = next((one for one in candidates if self._knows(f" {one} ")), "")
            if name:
                found[name] = None
            at += name.count(" ") + 1
        return list(found)

    def _knows(self, name: str) -> bool:
        return len(name) > _LEAST_LETTERS + 1 and (name in self._by_name or name in self._synonyms)

    def _is_of(self, label: Label, bare: set[str], wanted: Sequence[str]) -> bool:
        if plain(label.drug_name) in wanted:
            return True
        return all(plain(without_salts(one)) in bare for one in label.substances)


def _names(label: Label) -> set[str]:
    names = {plain(name) for name in (label.drug_name, *label.aliases, *label.substances)}
    return (names | {plain(without_salts(name)) for name in label.substances}) - {"  "}
