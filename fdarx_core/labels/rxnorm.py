"""Names of drugs from RxNorm's prescribable content, as NLM publishes it: RRF files in a folder or a zip.

Source of the columns and relations: RxNorm Technical Documentation, sections 12.4 (RXNCONSO) and 12.7 (RXNREL).
"""

from __future__ import annotations

import os
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from fdarx_core.labels.drugs import Drug
from fdarx_core.storage import StorageError

CONCEPTS, RELATIONS = "RXNCONSO.RRF", "RXNREL.RRF"
ADDRESS = "https://download.nlm.nih.gov/rxnorm/RxNorm_full_prescribe_current.zip"

_INGREDIENT = "IN"
_NAMING = frozenset((_INGREDIENT, "PIN", "MIN", "BN"))  # ingredients, their salts, combinations, brands
_DIRECT = ("tradename_of", "has_tradename", "form_of", "has_form", "part_of", "has_part")
_RELATED = frozenset((*_DIRECT, "precise_ingredient_of", "has_precise_ingredient"))


def names_folder() -> Path:
    """Return the folder in the user's cache where `fdarx fetch --names` puts RxNorm's names."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fdarx" / "names"


def rxnorm_files(place: str | os.PathLike[str]) -> list[Path]:
    """Return the RRF files and zips of a folder, or the file itself."""
    path = Path(place)
    return [file for file in sorted(path.rglob("*")) if file.suffix in (".RRF", ".zip")] if path.is_dir() else [path]


def read_rxnorm(place: str | os.PathLike[str]) -> list[tuple[str, Drug]]:
    """Return the names of ingredients, their salts, combinations and brands, each with its drug.

    The UNII of an ingredient is the code that FDA's labels give it in RxNorm (source MTHSPL), if they do.

    Args:
        place: a folder, or a zip, that holds RXNCONSO.RRF and RXNREL.RRF at any depth, or such a zip.

    Raises:
        StorageError: the place does not have them.
    """
    concepts: dict[str, tuple[str, str]] = {}
    uniis: dict[str, dict[str, str]] = defaultdict(dict)
    related: dict[str, set[str]] = defaultdict(set)
    with ExitStack() as opened:
        files = _open(rxnorm_files(place), opened)
        if len(files) < 2:
            raise StorageError(f"{place} holds no {CONCEPTS} and {RELATIONS}; get them with `fdarx fetch --names`")
        for row in _rows(files[CONCEPTS], 17):
            rxcui, source, kind, code, name = row[0], row[11], row[12], row[13], row[14]
            if source == "MTHSPL" and kind == "SU":
                uniis[rxcui][name.casefold()] = code
            elif source == "RXNORM" and kind in _NAMING and row[16] in ("", "N"):
                concepts[rxcui] = kind, name
        for row in _rows(files[RELATIONS], 8):
            if row[7] in _RELATED and row[0] in concepts and row[4] in concepts:
                related[row[0]].add(row[4])  # a relation stands in the file in both directions
                related[row[4]].add(row[0])
    names = {rxcui: name for rxcui, (_, name) in concepts.items()}
    moieties = {
        rxcui: (name, uniis[rxcui].get(name.casefold()) or min(uniis[rxcui].values(), default=""))
        for rxcui, name in names.items()
    }
    drugs = [(name, _ingredients(rxcui, concepts, related)) for rxcui, name in names.items()]
    return [(name, Drug.of(moieties[one] for one in found)) for name, found in drugs if found]


def _ingredients(rxcui: str, concepts: dict[str, tuple[str, str]], related: dict[str, set[str]]) -> set[str]:
    """Return the ingredients of a concept: itself, those that it is related to, or those of its salts."""
    if concepts[rxcui][0] == _INGREDIENT:
        return {rxcui}
    near = {one for one in related[rxcui] if concepts[one][0] == _INGREDIENT}
    salts = (one for one in related[rxcui] if concepts[one][0] == "PIN" and concepts[rxcui][0] != "PIN")
    return near or {one for salt in salts for one in _ingredients(salt, concepts, related)}


def _open(found: list[Path], opened: ExitStack) -> dict[str, IO[bytes]]:
    """Return the streams of both files by name."""
    files: dict[str, IO[bytes]] = {}
    for file in found:
        if file.name in (CONCEPTS, RELATIONS):
            files[file.name] = opened.enter_context(file.open("rb"))
        elif zipfile.is_zipfile(file):
            archive = opened.enter_context(zipfile.ZipFile(file))
            members = [one for one in archive.namelist() if one.rpartition("/")[2] in (CONCEPTS, RELATIONS)]
            files |= {one.rpartition("/")[2]: opened.enter_context(archive.open(one)) for one in members}
    return files


def _rows(stream: IO[bytes], columns: int) -> Iterator[list[str]]:
    for line in stream:
        row = line.decode("utf-8", errors="replace").rstrip("\r\n").split("|")
        if len(row) >= columns:
            yield row
