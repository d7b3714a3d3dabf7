"""Which of the identified labels make the corpus. Source: FDARxBench §B.1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fdarx_core.labels.identify import Identity
from fdarx_core.records import Reject, content_id

HUMAN_PRESCRIPTION = "34391-3"
EXCLUDED_ROUTES = ("topical", "irrigation", "intradermal", "inhalation")

STAGE = "select"


@dataclass(frozen=True, slots=True)
class Selection:
    """What to keep: LOINC document types, no route that contains one of the words, listed set ids, a sample of those.

    An empty `document_types` or `set_ids` keeps all; `sample` None takes all.
    """

    document_types: tuple[str, ...] = (HUMAN_PRESCRIPTION,)
    excluded_routes: tuple[str, ...] = EXCLUDED_ROUTES
    set_ids: frozenset[str] = frozenset()
    sample: int | None = None
    seed: int = 0


def select(found: Iterable[Identity], selection: Selection) -> tuple[list[Identity], list[Reject]]:
    """The chosen labels by set id, and a Reject for every other.

    Of documents with one set id the newest version stands. A sample is drawn by a hash of seed and set id, so that it
    depends neither on the order of the input nor on what else was read.
    """
    rejects: list[Reject] = []
    kept: list[Identity] = []
    for identity in _newest(found, rejects):
        unfit = _unfit(identity, selection)
        if unfit is None:
            kept.append(identity)
        else:
            rejects.append(_reject(identity, *unfit))
    if selection.sample is not None and selection.sample < len(kept):
        kept.sort(key=lambda identity: (content_id("sample", str(selection.seed), identity.set_id), identity.set_id))
        detail = f"not among the {selection.sample} drawn from {len(kept)} with seed {selection.seed}"
        rejects.extend(_reject(identity, "not_sampled", detail) for identity in kept[selection.sample :])
        kept = kept[: selection.sample]
    return sorted(kept, key=lambda identity: identity.set_id), rejects


def _newest(found: Iterable[Identity], rejects: list[Reject]) -> Iterator[Identity]:
    newest: dict[str, Identity] = {}
    for identity in sorted(found, key=lambda one: (one.version, one.effective_date, one.sha256, one.source.name)):
        older = newest.get(identity.set_id)
        if older is not None:
            detail = (
                f"version {older.version} of {older.effective_date}; {identity.source.name} holds {identity.version}"
            )
            rejects.append(_reject(older, "duplicate_set_id", detail))
        newest[identity.set_id] = identity
    return iter(newest.values())


def _unfit(identity: Identity, selection: Selection) -> tuple[str, str] | None:
    if selection.document_types and identity.document_type not in selection.document_types:
        return "document_type", f"{identity.document_type} {identity.document_type_name}".strip()
    if selection.set_ids and identity.set_id not in selection.set_ids:
        return "not_listed", "its set id is not among those asked for"
    for route in identity.routes:
        if any(word in route.casefold() for word in selection.excluded_routes):
            return "route", route
    return None


def _reject(identity: Identity, reason: str, detail: str) -> Reject:
    return Reject(identity.set_id, STAGE, reason, detail, identity.set_id, identity.source.name)
