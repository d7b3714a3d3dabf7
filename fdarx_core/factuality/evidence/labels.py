"""Evidence from the labels of a build: a drug's own, those that a question or claim names, or all."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fdarx_core.factuality.evidence.by_words import ByWords
from fdarx_core.factuality.evidence.source import K, Query
from fdarx_core.records import Evidence, Passage, Reject, content_id
from fdarx_core.retrieval.index.mentions import Mentions
from fdarx_core.retrieval.index.only import folded
from fdarx_core.storage import read_records, read_table
from fdarx_core.storage.benchmark.intake import open_build

_KEPT = 32
"""Sets of labels whose words stay at hand."""

Scope = frozenset[str]
"""Set ids; empty, it means all labels."""


class LabelEvidence:
    """Passages of a finished build's labels. Raises StorageError where the run is none, or is not finished.

    A query is kept to its own label, by set id; without one that the build has, to the labels that have its drug among
    their names; else to those of all drugs that question and claim name; else it searches all. With `everywhere` it
    always searches all. Passages are read when first searched, part by part.
    """

    rejects: Sequence[Reject] = ()

    def __init__(self, address: str, *, everywhere: bool = False) -> None:
        self._run = open_build(address)
        self._everywhere = everywhere
        self._drugs: dict[str, str] = {}
        self._part_of: dict[str, str] = {}
        self._named: defaultdict[str, set[str]] = defaultdict(set)
        for part in self._run.parts("labels"):
            for row in read_table(part, ["set_id", "drug_name", "aliases"]).to_pylist():
                self._drugs[row["set_id"]] = row["drug_name"]
                self._part_of[row["set_id"]] = part.name
                for name in filter(None, map(folded, (row["drug_name"], *row["aliases"]))):
                    self._named[name].add(row["set_id"])
        self._mentions = Mentions(self._named)
        self._at_hand: OrderedDict[Scope, ByWords] = OrderedDict()

    @property
    def name(self) -> str:
        return "all-labels" if self._everywhere else "labels"

    @property
    def identity(self) -> Mapping[str, str]:
        """See `LocalEvidence`."""
        return {"kind": self.name, "place": str(self._run.root), "digest": self._run.info()["input"]["digest"]}

    def find(self, queries: Sequence[Query], k: int = K) -> list[list[Evidence]]:
        """See `EvidenceSource`."""
        by_scope: defaultdict[Scope, list[int]] = defaultdict(list)
        for at, query in enumerate(queries):
            by_scope[self._scope(query)].append(at)
        found: dict[int, list[Evidence]] = {}
        for scope, places in by_scope.items():
            together = [queries[at] for at in places]
            found |= dict(zip(places, self._searched(scope).find(together, k), strict=True))
        return [found[at] for at in range(len(queries))]

    def _scope(self, query: Query) -> Scope:
        if self._everywhere:
            return frozenset()
        if query.set_id in self._drugs:
            return frozenset({query.set_id})
        return self._labels_of([query.drug]) or self._labels_of(self._mentions.of(f"{query.question}\n{query.claim}"))

    def _labels_of(self, names: Iterable[str]) -> Scope:
        return frozenset(set_id for name in names for set_id in self._named.get(folded(name), ()))

    def _searched(self, scope: Scope) -> ByWords:
        if scope not in self._at_hand:
            self._at_hand[scope] = ByWords(self._passages(scope or frozenset(self._drugs)))
            if len(self._at_hand) > _KEPT:
                self._at_hand.popitem(last=False)
        self._at_hand.move_to_end(scope)
        return self._at_hand[scope]

    def _passages(self, scope: Scope) -> Iterator[Evidence]:
        for part in sorted({self._part_of[set_id] for set_id in scope}):
            for passage in read_records(self._run.file(f"passages/{part}"), Passage):
                if passage.set_id in scope:
                    yield _evidence(passage, self._drugs[passage.set_id])


def _evidence(passage: Passage, drug: str) -> Evidence:
    return Evidence(
        content_id("labels", passage.set_id, passage.marker, passage.text),
        "labels",
        drug,
        passage.text,
        passage.marker,
        section=passage.section_path,
        set_id=passage.set_id,
        drug=drug,
    )
