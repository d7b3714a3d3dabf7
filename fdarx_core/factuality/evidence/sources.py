"""Sources of evidence for claims: the labels of a build, an index, or a file of texts.

All of them are searched through the retrievers of `fdarx_core.retrieval`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from typing import Any, Protocol

from fdarx_core.factuality.evidence.subjects import ClaimQuery, LabelNames, Subject, product_named, subject_of
from fdarx_core.labels.drugs import DrugNames
from fdarx_core.rag.search import (
    SearchQuery,
    available_retrievers,
    encode_queries,
    index_encoder,
    pool_candidates,
    search_index,
)
from fdarx_core.records import CheckedAnswer, Evidence, Passage, Reject, content_id
from fdarx_core.retrieval.encoders import HeadedText, SentenceEncoder
from fdarx_core.retrieval.index import ChunkFilter, IndexReader
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.retrievers import (
    Collection,
    Queries,
    check_retriever_models,
    get_retriever,
    load_encoder,
    load_reranker,
    needs_reranker,
)
from fdarx_core.storage import Location, StorageError, read_records
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.tables import FileRow, check_rows_file, no_usable_row, read_rows, text_at
from fdarx_core.text.sentences import LIST_ITEM
from fdarx_core.wording import did_you_mean

K = 5
"""Passages for each claim. Source: FAS §3.2 (Support@5)."""
PUBMED = "pubmed"
"""The endpoint of requests to PubMed."""
REFERENCE_SOURCE = "none"
STAGE = "evidence"

_FORMS = "labels:RUN, all-labels:RUN, index:INDEX, file:PATH or pubmed"
_DEPTH_FACTOR = 8
"""Multiple of k chunks that is retrieved to find k different texts, because labels of one substance share most texts.
"""
_CACHED_SCOPES = 32
"""Sets of labels whose passages stay in memory."""
_IDS = ("pmid", "pubid", "id", "doc_id", "document_id", "uid")
_TITLES = ("title", "heading", "name", "question")
_SECTIONS = ("section", "section_title")
_METADATA = {
    *(*_IDS, *_TITLES, *_SECTIONS),
    *("year", "date", "url", "link", "doi", "source", "drug", "set_id", "language", "labels", "meshes"),
}
"""Fields of a row that describe its text; a text in any other field is evidence."""
_YEAR = re.compile(r"\b(?:1[89]|20)\d\d\b")


class EvidenceSource(Protocol):
    """A source of evidence that is searched in this process; PubMed is asked over the network instead (`pubmed`)."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> Mapping[str, str]:
        """The kind of the source, a digest or version of its content, and its retriever, which decide what it finds."""
        ...

    @property
    def rejects(self) -> Sequence[Reject]:
        """The rows of the source that hold no evidence."""
        ...

    def find(self, queries: Sequence[ClaimQuery], k: int = K) -> list[list[Evidence]]:
        """Return the k best passages for each query, best first; fewer where there are no more."""
        ...

    def subjects(self, queries: Sequence[ClaimQuery]) -> list[Subject]:
        """Return the drugs that each claim speaks of, by the names that the source knows."""
        ...


def parse_evidence(spec: str) -> tuple[str, str]:
    """Return kind and place of a source of evidence, written KIND:PLACE or `pubmed`; the place of PubMed is "".

    Raises ValueError for anything else.
    """
    kind, colon, place = spec.strip().partition(":")
    if kind == PUBMED and not colon:
        return kind, ""
    if kind not in _SOURCES or not place.strip():
        near = did_you_mean(f"{kind}{colon}", [PUBMED, *(f"{name}:" for name in _SOURCES)]) or ";"
        blank = ": no blank may stand after the colon;" if kind in _SOURCES else near
        raise ValueError(f"{spec!r} names no evidence{blank} write {_FORMS}")
    return kind, place.strip()


def is_evidence(text: str) -> bool:
    """Return whether a text is written as a source of evidence, and is no sentence such as "index: the first list"."""
    kind, _, place = text.partition(":")
    return text == PUBMED or (kind in _SOURCES and place == place.lstrip() != "")


def open_evidence(
    spec: str, directories: ModelDirectories | None = None, retriever: str | None = None
) -> EvidenceSource:
    """Open a source of evidence.

    Args:
        spec: labels:RUN, all-labels:RUN, index:INDEX or file:PATH.
        directories: the directories of local models, for an index and for retrievers that need models.
        retriever: the name of a retriever; by default hybrid where its embedding model is given (for an index: where
            it can be loaded), else bm25.

    Raises ValueError for another spec or retriever, StorageError where there is no such source, it is an unfinished
    build or a file without texts, ModelMissing where a model cannot be used.
    """
    kind, place = parse_evidence(spec)
    if kind == PUBMED:
        raise ValueError("PubMed is asked over the network: see fdarx_core.factuality.evidence.pubmed")
    return _SOURCES[kind](place, directories or ModelDirectories(), retriever)


def reference_evidence(answer: CheckedAnswer) -> Evidence | None:
    """Return the question's first reference, the evidence of the ablation without retrieval; None without references.

    Source: FAS §5.5 ("w/o retrieval"), which does not say what the claims are compared with.
    """
    text = next((text for text in answer.references if text.strip()), "")
    id = content_id(REFERENCE_SOURCE, "reference", text)
    return Evidence(id, REFERENCE_SOURCE, "", text, "reference") if text else None


class PassageSearch:
    """Searches passages in memory; of passages with the same text only the first is found.

    `retriever` is the name of a retriever, whose models `directories` name. Models are loaded at the first search.
    """

    def __init__(self, passages: Iterable[Evidence], retriever: str, directories: ModelDirectories) -> None:
        distinct: dict[str, Evidence] = {}
        for passage in passages:
            distinct.setdefault(" ".join(passage.text.split()), passage)
        self._passages = list(distinct.values())
        self._texts = ["\n".join(filter(None, (_heading(passage), passage.text))) for passage in self._passages]
        self._retriever = get_retriever(retriever, load_reranker(directories) if needs_reranker(retriever) else None)
        self._directories = directories

    def find(self, queries: Sequence[ClaimQuery], k: int = K) -> list[list[Evidence]]:
        """Return the k best passages for each query, best first; retrievers by words find only shared words."""
        claims = [query.claim for query in queries]
        vectors = {name: encoder.encode(claims) for name, encoder in self._encoders.items()}
        wanted = Queries([query.search_words for query in queries], vectors)
        rankings = self._retriever.rank(wanted, self._collection, k)
        return [[self._passages[at] for at, _ in ranked] for ranked in rankings]

    @cached_property
    def _encoders(self) -> dict[str, SentenceEncoder]:
        return {name: load_encoder(name, self._directories) for name in self._retriever.encoders}

    @cached_property
    def _collection(self) -> Collection:
        headed = [HeadedText(_heading(passage), passage.text) for passage in self._passages]
        vectors = {name: encoder.encode_passages(headed) for name, encoder in self._encoders.items()}
        return Collection(self._texts, vectors, matching_only=True)


def _heading(passage: Evidence) -> str:
    return "\n".join(filter(None, (passage.title, passage.section)))


def _checked(retriever: str | None, directories: ModelDirectories) -> str:
    """Return the retriever: by default hybrid where an embedding model is given, else bm25.

    Raises as `get_retriever`, ModelMissing where its models are missing.
    """
    chosen = retriever or ("hybrid" if directories.cosine else "bm25")
    check_retriever_models(chosen, directories)
    return chosen


def _with_retriever(identity: dict[str, str], retriever: str) -> Mapping[str, str]:
    return identity if retriever == "bm25" else {**identity, "retriever": retriever}


class FileEvidence:
    """The rows of a `.jsonl`, `.json`, `.csv` or `.parquet` file; `rejects` are the rows without text.

    The evidence of a row is all its texts and lists of texts, in order, except fields that describe it: an id (`pmid`,
    `id`), a `title` or `question`, `section`, `year`, `drug`, `set_id`, `url`, `source`. So a row of PubMedQA is its
    abstract: the contexts, then the long answer.
    Raises StorageError where the file cannot be read or no row holds a text.
    """

    name = "file"

    def __init__(self, place: str, directories: ModelDirectories, retriever: str | None = None) -> None:
        location, retriever = Location(place), _checked(retriever, directories)
        check_rows_file(location, "--evidence file:PATH")
        found: dict[str, Evidence] = {}
        self.rejects: list[Reject] = []
        for line in read_rows(location, "texts"):
            try:
                evidence = _evidence_of_row(line)
                if found.setdefault(evidence.id, evidence) is not evidence:
                    raise InputError("duplicate", f"{found[evidence.id].place} holds the same")
            except InputError as error:
                self.rejects.append(Reject(line.place, STAGE, error.reason, error.detail, source=line.place))
        if not found:
            raise StorageError(no_usable_row(place, "text", 'a text, as {"text": …}', self.rejects))
        self.find = PassageSearch(found.values(), retriever, directories).find
        drugs = dict.fromkeys(evidence.drug for evidence in found.values() if evidence.drug)
        self._names = DrugNames(([product_named(drug)], ()) for drug in drugs)
        digest = blake2b(location.read_bytes(), digest_size=16).hexdigest()
        self.identity = _with_retriever({"kind": self.name, "file": location.name, "digest": digest}, retriever)

    def subjects(self, queries: Sequence[ClaimQuery]) -> list[Subject]:
        """See `EvidenceSource`."""
        return [subject_of(query, lambda text: [found.name for found in self._names.find(text)]) for query in queries]


def _evidence_of_row(line: FileRow) -> Evidence:
    """Return the evidence of a row, whose keys may be in any case. Raises InputError for a row without text."""
    row = {key.lower(): value for key, value in line.checked_row().items()}
    text = "\n".join(_texts(row))
    if not text:
        raise InputError("no_text", "no field holds a text of two words or more, beside those that name or date it")
    place, title = text_at(row, *_IDS) or line.place, text_at(row, *_TITLES)
    year = _YEAR.search(text_at(row, "year", "date"))
    return Evidence(
        content_id("file", place, title, text),
        "file",
        title,
        text,
        place,
        section=text_at(row, *_SECTIONS),
        set_id=text_at(row, "set_id"),
        drug=text_at(row, "drug"),
        year=int(year[0]) if year else 0,
    )


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of two words or more in a row, at any depth, except in fields that describe it."""
    if isinstance(value, str) and len(value.split()) > 1:
        yield value.strip()
    inner = [part for key, part in value.items() if key.lower() not in _METADATA] if isinstance(value, dict) else value
    for part in inner if isinstance(inner, list) else ():
        yield from _texts(part)


class IndexEvidence:
    """The chunks of an index.

    A query returns only chunks of its label, or else of its drug, where the index has them; else of the drugs that its
    question and claim name. Raises StorageError where there is no index, ModelMissing where the given model cannot be
    used, ValueError for a retriever that cannot search the index.
    """

    name = "index"
    rejects: Sequence[Reject] = ()

    def __init__(self, place: str, directories: ModelDirectories, retriever: str | None = None) -> None:
        self._index = IndexReader.open(place)
        available, notice = available_retrievers(self._index, directories)
        self._retriever = retriever or ("hybrid" if "hybrid" in available else "bm25")
        if self._retriever not in available:
            raise ValueError(f"{place} can't be searched by {retriever}, only by {', '.join(available)}; {notice}")
        self._directories = directories
        searched_by = {"version": self._index.version, "retriever": self._retriever}
        self.identity: Mapping[str, str] = {"kind": self.name, "place": str(Location(place)), **searched_by}

    def find(self, queries: Sequence[ClaimQuery], k: int = K) -> list[list[Evidence]]:
        """See `EvidenceSource`."""
        claims = [SearchQuery(query.claim, k, is_question=False) for query in queries]
        dense = self._index.needs_vectors(self._retriever)
        vectors = encode_queries(self._encoder, claims) if dense else None
        found: list[list[Evidence]] = [[] for _ in queries]
        for at, query in enumerate(queries):
            search = SearchQuery(query.search_words, k, is_question=False)
            vector = None if vectors is None else vectors[at : at + 1]
            depth = k * _DEPTH_FACTOR
            named = tuple(self._index.label_drugs.drug_names(f"{query.question}\n{query.claim}"))
            choices = (ChunkFilter(set_id=query.set_id), ChunkFilter(drug=query.drug), ChunkFilter(drugs=named))
            usable = (choice for choice in choices if choice != ChunkFilter() and self._index.matching(choice).any())
            hits = search_index(self._index, [search], next(usable, ChunkFilter()), depth, self._retriever, vector)
            for chunk in (hit.chunk for hit in pool_candidates(hits, [k])):
                place = content_id("index", chunk.id, chunk.text), "index", chunk.title, chunk.text, chunk.id
                source = chunk.section, chunk.set_id, chunk.drug
                found[at].append(Evidence(*place, *source, lead=chunk.table_header))
        return found

    def subjects(self, queries: Sequence[ClaimQuery]) -> list[Subject]:
        """See `EvidenceSource`."""
        return [subject_of(query, self._index.label_drugs.drug_names) for query in queries]

    @cached_property
    def _encoder(self) -> SentenceEncoder:
        return index_encoder(self._index, self._directories)


Scope = frozenset[str]
"""The set ids of the labels to search; empty for all labels."""


class BuildEvidence:
    """The passages of the labels of a finished build.

    A query is searched in its own label, by set id; else in the labels that have its drug among their names; else in
    those of all drugs that question and claim name; else in all labels. With `everywhere` it is always searched in all.
    Passages are read at the first search. Raises StorageError where the run is no build, or is not finished.
    """

    rejects: Sequence[Reject] = ()

    def __init__(
        self, place: str, directories: ModelDirectories, retriever: str | None = None, *, everywhere: bool = False
    ) -> None:
        self._retriever, self._directories = _checked(retriever, directories), directories
        self._run, self._everywhere = open_build(place), everywhere
        self.name = "all-labels" if everywhere else "labels"
        identity = {"kind": self.name, "place": str(self._run.root), "digest": self._run.info()["input"]["digest"]}
        self.identity = _with_retriever(identity, self._retriever)
        self._names = LabelNames(self._run)
        self.subjects = self._names.subjects
        self._search_in = lru_cache(_CACHED_SCOPES)(self._open_search)

    def find(self, queries: Sequence[ClaimQuery], k: int = K) -> list[list[Evidence]]:
        """See `EvidenceSource`."""
        by_scope: defaultdict[Scope, list[int]] = defaultdict(list)
        for at, query in enumerate(queries):
            by_scope[self._scope(query)].append(at)
        found: dict[int, list[Evidence]] = {}
        for scope, positions in by_scope.items():
            together = [queries[at] for at in positions]
            found |= dict(zip(positions, self._search_in(scope).find(together, k), strict=True))
        return [found[at] for at in range(len(queries))]

    def _scope(self, query: ClaimQuery) -> Scope:
        if self._everywhere:
            return frozenset()
        if query.set_id in self._names.drugs:
            return frozenset({query.set_id})
        named = self._names.find(f"{query.question}\n{query.claim}")
        return self._names.labels_of([query.drug]) or self._names.labels_of(named)

    def _open_search(self, scope: Scope) -> PassageSearch:
        searched, found = scope or frozenset(self._names.drugs), list[Evidence]()
        for part in sorted({self._names.part_of[set_id] for set_id in searched}):
            passages = read_records(self._run.file(f"passages/{part}"), Passage)
            for passage, lead in with_list_leads(passage for passage in passages if passage.set_id in searched):
                drug = self._names.drugs[passage.set_id]
                found.append(evidence_of_passage(passage, drug, passage.table_header or lead))
        return PassageSearch(found, self._retriever, self._directories)


def evidence_of_passage(passage: Passage, drug: str, lead: str = "") -> Evidence:
    """Return a passage of a label of a drug as evidence."""
    id = content_id("labels", passage.set_id, passage.marker, passage.text)
    with_source = passage.section_path, passage.set_id, drug
    return Evidence(id, "labels", drug, passage.text, passage.marker, *with_source, lead=lead)


def with_list_leads(passages: Iterable[Passage]) -> Iterator[tuple[Passage, str]]:
    """Yield passages, in the order of their labels, with the line that introduces the list within which each begins.

    That line stands in an earlier passage of the section and ends with a colon; only items stand between. It is "" for
    a passage that does not begin within such a list.
    """
    lead, section = "", ("", "")
    for passage in passages:
        place = passage.set_id, passage.section_path
        if place != section or passage.section_chunk_index == 0:
            lead, section = "", place
        lines = [line.strip() for line in passage.text.split("\n") if line.strip()]
        yield passage, lead if lines and LIST_ITEM.match(lines[0]) else ""
        for line in lines:
            if not LIST_ITEM.match(line):
                lead = line if line.endswith(":") else ""


_SOURCES: dict[str, Callable[[str, ModelDirectories, str | None], EvidenceSource]] = {
    "labels": BuildEvidence,
    "all-labels": partial(BuildEvidence, everywhere=True),
    "index": IndexEvidence,
    "file": FileEvidence,
}
