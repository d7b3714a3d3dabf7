"""Evidence as a user names it: labels:RUN, all-labels:RUN, index:INDEX, file:PATH or pubmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fdarx_core.factuality.evidence.file import FileEvidence
from fdarx_core.factuality.evidence.index import IndexEvidence
from fdarx_core.factuality.evidence.labels import LabelEvidence
from fdarx_core.factuality.evidence.pubmed import NAME as PUBMED
from fdarx_core.factuality.evidence.source import EvidenceSource
from fdarx_core.records import Reject
from fdarx_core.retrieval.models import ModelDirectories

_FORMS = "labels:RUN, all-labels:RUN, index:INDEX, file:PATH or pubmed"


class LocalEvidence(EvidenceSource, Protocol):
    """Evidence that is at hand."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What of the source decides what it finds: its kind, and its content by digest or version."""
        ...

    @property
    def rejects(self) -> Sequence[Reject]:
        """Rows of the source that hold no evidence."""
        ...


@dataclass(frozen=True, slots=True)
class EvidenceSpec:
    """Which evidence a user wants; `place` is "" for PubMed, which is asked over the network (`evidence.pubmed`)."""

    kind: str
    place: str

    @classmethod
    def parse(cls, text: str) -> EvidenceSpec:
        """Of KIND:PLACE. Raises ValueError for anything else."""
        kind, colon, place = text.strip().partition(":")
        if kind == PUBMED and not colon:
            return cls(kind, "")
        if kind not in _OPENED or not place.strip():
            raise ValueError(f"{text!r} names no evidence; write {_FORMS}")
        return cls(kind, place.strip())

    @property
    def is_pubmed(self) -> bool:
        return self.kind == PUBMED


def open_evidence(spec: str, directories: ModelDirectories | None = None) -> LocalEvidence:
    """The source that the spec names, ready to be searched; `directories` may name an index's embedding model.

    Raises ValueError for what names none, or PubMed; StorageError where nothing of the kind is there, a build is
    unfinished, or a file holds no text; ModelMissing where a model that was given can't be used.
    """
    parsed = EvidenceSpec.parse(spec)
    if parsed.is_pubmed:
        raise ValueError(
            "PubMed is not at hand, it is asked over the network: see fdarx_core.factuality.evidence.pubmed"
        )
    return _OPENED[parsed.kind](parsed.place, directories or ModelDirectories())


_OPENED: dict[str, Callable[[str, ModelDirectories], LocalEvidence]] = {
    "labels": lambda place, _: LabelEvidence(place),
    "all-labels": lambda place, _: LabelEvidence(place, everywhere=True),
    "index": IndexEvidence,
    "file": lambda place, _: FileEvidence(place),
}
