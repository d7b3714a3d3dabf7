"""What evidence is searched for, and who finds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fdarx_core.records import Evidence

K = 5
"""Passages for each claim. Source: FAS §3.2 (Support@5)."""


@dataclass(frozen=True, slots=True)
class Query:
    """A claim as it reads by itself, the question that it answers, and the label that this is about, if any."""

    claim: str
    question: str
    drug: str = ""
    set_id: str = ""


class EvidenceSource(Protocol):
    """Evidence at hand: a run's labels, an index, a file. PubMed is asked over the network instead (`pubmed`)."""

    @property
    def name(self) -> str: ...

    def find(self, queries: Sequence[Query], k: int = K) -> list[list[Evidence]]:
        """The k best passages for each query, best first; fewer where there are no more."""
        ...
