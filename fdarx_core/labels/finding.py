"""The drugs that a text names, by the names of labels or of RxNorm."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fdarx_core.labels.drugs import DrugNames, Mention
from fdarx_core.labels.parse import parse_document
from fdarx_core.labels.rxnorm import names_folder, read_rxnorm, rxnorm_files
from fdarx_core.labels.selection import find_sources, read_each, read_source
from fdarx_core.records import Passage, Product, Reject
from fdarx_core.storage import Location, RunDirectory
from fdarx_core.storage.run_directory import read_labels

if TYPE_CHECKING:
    from pandas import DataFrame

_RUN_FILE = "run.json"


def find_drugs(text: str, labels: str | os.PathLike[str] | DataFrame | DrugNames | None = None) -> list[Mention]:
    """Return the places of a text that name drugs, each with the active moieties of what it names, in order.

    Names are found exactly, regardless of case and signs, and with a typing error; `exact` says which. Salts ("sodium")
    are no drugs. See `DrugNames`, which is the index of names to make once for many texts.

    Args:
        text: any text.
        labels: where names come from: a file, folder, glob or zip of labels, a finished build, the result of
            `read_labels`, or a `DrugNames`. A place is read once per process. RxNorm's names, if `fdarx fetch --names`
            has put them into the user's cache, are used as well, and alone where no labels are given.

    Raises:
        ValueError: there are no names: no labels are given, and the cache holds none; or the labels have no products.
        StorageError: there is no such place.
    """
    if isinstance(labels, DrugNames):
        names = labels
    elif labels is None or isinstance(labels, str | os.PathLike):
        names = _read_names("" if labels is None else os.fspath(labels), names_folder())
    else:
        names = DrugNames(zip(labels["products"], map(_texts, labels["passages"]), strict=True))
    if not names:
        raise ValueError("there are no names of drugs: give labels=…, or run `fdarx fetch --names` once")
    return names.find(text)


def medicine_names() -> DrugNames:
    """Return RxNorm's names of medicines, if `fdarx fetch --names` has put them into the user's cache, else none."""
    return _read_names("", names_folder())


@lru_cache(maxsize=4)
def _read_names(place: str, rxnorm: Path) -> DrugNames:
    fetched = rxnorm.exists() and rxnorm_files(rxnorm)
    return DrugNames(_read(place) if place else (), read_rxnorm(rxnorm) if fetched else ())


def _read(place: str) -> Iterator[tuple[Sequence[Product], list[str]]]:
    """Yield the products and texts of labels of a build, or of files, one label in memory at a time."""
    if (Location(place) / _RUN_FILE).exists():
        for rows in read_labels(RunDirectory.open(place)):
            yield rows.label.products, _texts(rows.passages.values())
        return
    documents = chain.from_iterable(map(read_source, find_sources([place]).sources))
    for parsed in read_each(documents, lambda data, source: parse_document(data), "read"):
        if not isinstance(parsed, Reject):
            label, passages = parsed
            yield label.products, _texts(passages)


def _texts(passages: Iterable[Passage]) -> list[str]:
    return [passage.text for passage in passages]
