"""Evidence from a file of texts: one passage a row, or PubMed's abstracts as PubMedQA gives them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from fdarx_core.factuality.evidence.by_words import ByWords
from fdarx_core.factuality.evidence.source import K, Query
from fdarx_core.records import Evidence, Reject, content_id
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.rows_file import check_rows_file, read_rows

STAGE = "evidence"
_IDS = ("pmid", "pubid", "id", "doc_id", "document_id", "uid")
_TITLES = ("title", "heading", "name")
_SECTIONS = ("section", "section_title")
_ABOUT = {*_IDS, *_TITLES, *_SECTIONS, "year", "date", "url", "link", "doi", "source", "drug", "set_id", "language"}
"""What a row says of its text; under any other name a text is evidence."""
_YEAR = re.compile(r"\b(?:1[89]|20)\d\d\b")


class FileEvidence:
    """The rows of a `.jsonl`, `.json`, `.csv` or `.parquet` file, searched by words; `rejects` are those without text.

    A row's evidence is all its texts and lists of texts, in order, but those that say what it is: an id (`pmid`,
    `id`), a `title`, `section`, `year`, `drug`, `set_id`, `url`, `source`. A row of PubMedQA (CONTEXTS) is the abstract
    as PubMed has it: the contexts under their LABELS, then LONG_ANSWER, its conclusion; QUESTION is its title.
    Raises StorageError where the file can't be read or no row holds a text.
    """

    name = "file"

    def __init__(self, place: str) -> None:
        location = Location(place)
        check_rows_file(location, "--evidence file:PATH")
        found: dict[str, Evidence] = {}
        self.rejects: list[Reject] = []
        for at, row, fault in read_rows(location, "texts"):
            try:
                one = _evidence({key.lower(): value for key, value in row.items()}, fault, at)
                if found.setdefault(one.id, one) is not one:
                    raise ValueError(f"duplicate: {found[one.id].place} holds the same")
            except ValueError as error:
                reason, _, detail = str(error).partition(": ")
                self.rejects.append(Reject(at, STAGE, reason, detail, source=at))
        if not found:
            raise StorageError(f'{place} holds no text in any row; give rows with texts, as {{"text": …}}')
        self._passages = ByWords(found.values())
        digest = blake2b(location.read_bytes(), digest_size=16).hexdigest()
        self.identity: Mapping[str, str] = {"kind": self.name, "file": location.name, "digest": digest}

    def find(self, queries: Sequence[Query], k: int = K) -> list[list[Evidence]]:
        """See `EvidenceSource`."""
        return self._passages.find(queries, k)


def _evidence(row: dict[str, Any], fault: str, place: str) -> Evidence:
    """Of a row with its keys in lower case. Raises ValueError("reason: detail")."""
    if fault:
        raise ValueError(fault)
    text = "\n".join(_abstract(row) or _texts(row))
    if not text:
        raise ValueError("no_text: no field holds a text of two words or more, beside those that name or date it")
    place = _first(row, _IDS) or place
    title = _first(row, _TITLES) or (_first(row, ("question",)) if _contexts(row) else "")
    return Evidence(
        content_id("file", place, title, text),
        "file",
        title,
        text,
        place,
        section=_first(row, _SECTIONS),
        set_id=_first(row, ("set_id",)),
        drug=_first(row, ("drug",)),
        year=_year(_first(row, ("year", "date"))),
    )


def _abstract(row: Mapping[str, Any]) -> list[str]:
    """Of a row of PubMedQA; nothing of any other."""
    contexts = _contexts(row)
    inner = row.get("context")
    labels = _strings((inner if isinstance(inner, dict) else row).get("labels"))
    named = labels if len(labels) == len(contexts) else [""] * len(contexts)
    lines = [f"{label}: {text}" if label else text for label, text in zip(named, contexts, strict=True)]
    conclusion = _first(row, ("long_answer",))
    return [*lines, f"CONCLUSION: {conclusion}"] if lines and conclusion else lines


def _contexts(row: Mapping[str, Any]) -> list[str]:
    """PubMedQA has them in the row itself or, as datasets libraries hand it out, one level down."""
    inner = row.get("context")
    return _strings((inner if isinstance(inner, dict) else row).get("contexts"))


def _texts(row: Mapping[str, Any]) -> Iterator[str]:
    for key, value in row.items():
        if key not in _ABOUT:
            yield from (text for text in _strings(value) if len(text.split()) > 1)


def _strings(value: Any) -> list[str]:
    """The texts in a text or list; nothing of anything else."""
    listed = value if isinstance(value, list) else [value]
    return [one.strip() for one in listed if isinstance(one, str) and one.strip()]


def _first(row: Mapping[str, Any], keys: Iterable[str]) -> str:
    """The first of the values that is a text or a whole number."""
    values = (row.get(key) for key in keys)
    usable = (str(one).strip() for one in values if isinstance(one, str | int) and not isinstance(one, bool))
    return next(filter(None, usable), "")


def _year(text: str) -> int:
    found = _YEAR.search(text)
    return int(found[0]) if found else 0
