"""Find label files, identify the documents in them, and select those that make the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import TypeVar

from fdarx_core.labels.drugs import drug_of
from fdarx_core.labels.metadata import SUBJECT, Header, read_header, read_products
from fdarx_core.labels.xml import BadDocument, parse_xml
from fdarx_core.records import Reject, content_id
from fdarx_core.storage import sources
from fdarx_core.storage.sources import Source

Result = TypeVar("Result")

HUMAN_PRESCRIPTION = "34391-3"
EXCLUDED_ROUTES = ("topical", "irrigation", "intradermal", "inhalation")

_XML = sources.FileFilter("XML files", (".xml",))


find_sources = partial(sources.find_sources, wanted=_XML)
"""Find `.xml` and `.zip` files (see `fdarx_core.storage.sources.find_sources`)."""


read_source = partial(sources.read_source, wanted=_XML)
"""Yield the XML documents of a source, each with its own address: one, or all of an inner zip.

For unreadable content, yield a Reject.
"""


def read_each(
    documents: Iterable[tuple[Source, bytes] | Reject], read: Callable[[bytes, Source], Result], stage: str
) -> Iterator[Result | Reject]:
    """Yield what a function makes of each document of `read_source`; for one that is no label a Reject of the stage."""
    for document in documents:
        if isinstance(document, Reject):
            yield document
            continue
        source, data = document
        try:
            yield read(data, source)
        except BadDocument as error:
            yield Reject(source.name, stage, error.reason, error.detail, source=source.name)


@dataclass(slots=True)
class Identity(Header):
    """A document's header, its routes and drug as in `Label`, the digest of its bytes, and its address."""

    routes: list[str]
    drug: str
    sha256: str
    source: Source


def identify(data: bytes, source: Source) -> Identity:
    """Return the identity of one SPL document.

    The whole document is parsed, so that a damaged one is found before anything is asked of a model.

    Raises:
        BadDocument: as `parse_document`.
    """
    root, subjects = parse_xml(data, SUBJECT)
    header = read_header(root)
    found = read_products(subjects)
    drug = drug_of(*found["products"]).id
    return Identity(**asdict(header), routes=found["routes"], drug=drug, sha256=sha256(data).hexdigest(), source=source)


def identify_sources(sources: Sequence[Source]) -> tuple[int, list[Identity], list[Reject]]:
    """Return the number of sources, the identities of their documents, and rejects for what can't be read."""
    rows = list(read_each(chain.from_iterable(map(read_source, sources)), identify, "identify"))
    rejects = [row for row in rows if isinstance(row, Reject)]
    return len(sources), [row for row in rows if not isinstance(row, Reject)], rejects


@dataclass(frozen=True, slots=True)
class Selection:
    """The criteria for the selection of labels. Source: FDARxBench §B.1.

    Attributes:
        document_types: LOINC codes; empty: all.
        excluded_routes: a label is rejected where one of its routes contains one of these words.
        set_ids: empty: all.
        per_drug: the number of labels to draw of each drug (set of active moieties); None: all. A label without an
            active moiety counts as a drug of its own.
        sample: the number of labels to draw of those that are left; None: all.
        seed: of both draws.
    """

    document_types: tuple[str, ...] = (HUMAN_PRESCRIPTION,)
    excluded_routes: tuple[str, ...] = EXCLUDED_ROUTES
    set_ids: frozenset[str] = frozenset()
    per_drug: int | None = None
    sample: int | None = None
    seed: int = 0


def select(found: Iterable[Identity], selection: Selection) -> tuple[list[Identity], list[Reject]]:
    """Return the selected labels in order of set id, and a Reject for every other.

    Of several documents with one set id, the newest version is kept. Labels are drawn by a hash of seed and set id, so
    that the choice does not depend on the order of the input or on other documents.
    """
    rejects: list[Reject] = []
    kept: list[Identity] = []
    for identity in _newest(found, rejects):
        unfit = _unfit(identity, selection)
        if unfit is None:
            kept.append(identity)
        else:
            rejects.append(_reject(identity, *unfit))
    kept.sort(key=lambda identity: (content_id("sample", str(selection.seed), identity.set_id), identity.set_id))
    if selection.per_drug is not None:
        kept = _of_each_drug(kept, selection.per_drug, selection.seed, rejects)
    if selection.sample is not None and selection.sample < len(kept):
        detail = f"not among the {selection.sample} drawn from {len(kept)} with seed {selection.seed}"
        rejects += [_reject(identity, "not_sampled", detail) for identity in kept[selection.sample :]]
        kept = kept[: selection.sample]
    return sorted(kept, key=lambda identity: identity.set_id), rejects


def _of_each_drug(drawn: Sequence[Identity], most: int, seed: int, rejects: list[Reject]) -> list[Identity]:
    """Return the first `most` labels of each drug, in order; the others are added to `rejects`."""
    kept: list[Identity] = []
    labels: Counter[str] = Counter(identity.drug or identity.set_id for identity in drawn)
    taken: Counter[str] = Counter()
    for identity in drawn:
        drug = identity.drug or identity.set_id
        taken[drug] += 1
        if taken[drug] <= most:
            kept.append(identity)
        else:
            detail = f"not among the {most} drawn from {labels[drug]} labels of the drug {drug} with seed {seed}"
            rejects.append(_reject(identity, "not_sampled", detail))
    return kept


def _newest(found: Iterable[Identity], rejects: list[Reject]) -> Iterable[Identity]:
    newest: dict[str, Identity] = {}
    for identity in sorted(found, key=lambda one: (one.version, one.effective_date, one.sha256, one.source.name)):
        if older := newest.get(identity.set_id):
            newer = f"{identity.source.name} holds {identity.version}"
            detail = f"version {older.version} of {older.effective_date}; {newer}"
            rejects.append(_reject(older, "duplicate_set_id", detail))
        newest[identity.set_id] = identity
    return newest.values()


def _unfit(identity: Identity, selection: Selection) -> tuple[str, str] | None:
    """Return the reason and the detail of a Reject, or None."""
    if selection.document_types and identity.document_type not in selection.document_types:
        return "document_type", f"{identity.document_type} {identity.document_type_name}".strip()
    if selection.set_ids and identity.set_id not in selection.set_ids:
        return "not_listed", "its set id is not among those asked for"
    for route in identity.routes:
        if any(word in route.casefold() for word in selection.excluded_routes):
            return "route", route
    return None


def _reject(identity: Identity, reason: str, detail: str) -> Reject:
    return Reject(identity.set_id, "select", reason, detail, identity.set_id, identity.source.name)
