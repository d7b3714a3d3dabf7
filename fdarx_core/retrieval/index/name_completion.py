"""Completion of the names of drugs and documents, also by other names of a drug: its products, substances, moieties."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fdarx_core.records import LabelVersion


@dataclass(frozen=True, slots=True)
class NameCompletion:
    """A name as filters take it. `stands_for` has the moieties of a drug that its name does not say, "" for none."""

    name: str
    stands_for: str = ""


class NameCompleter:
    """Completes names. Case and white space are ignored, and a name that several labels have is listed once.

    Args:
        names: the name of each label's drug with the label's version, or the title of a document with None.
    """

    def __init__(self, names: Iterable[tuple[str, LabelVersion | None]]) -> None:
        written: dict[str, str] = {}
        aliases: dict[str, set[str]] = {}
        moieties: dict[str, dict[str, None]] = {}
        for name, label in names:
            if key := normalize_name(name):
                written.setdefault(key, name)
                aliases.setdefault(key, set()).update(_aliases(label) if label else ())
                moieties.setdefault(key, {}).update(dict.fromkeys(label.moieties if label else ()))
        self._rows = [
            (key, NameCompletion(name, _stands_for(key, moieties[key])), sorted(aliases[key]))
            for key, name in sorted(written.items())
        ]

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


def _aliases(label: LabelVersion) -> set[str]:
    products = [name for one in label.products for name in (*one.names, *one.substances, *one.moieties)]
    return {normalize_name(name) for name in (*products, *label.moieties)}


def _stands_for(key: str, moieties: Iterable[str]) -> str:
    others = [name.lower() for name in moieties if normalize_name(name) not in key]
    return ", ".join(others)
