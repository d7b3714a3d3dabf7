"""Searching an index for the queries of a strategy, and pooling what they find into one list of candidates."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from fdarx_core.labels.drugs import Mention
from fdarx_core.llm import Task
from fdarx_core.records import AbsentDrug, Chunk, NumberDifference, OtherLabel, OtherSentence, Response, SearchHit
from fdarx_core.retrieval.encoders import SentenceEncoder, Vectors, fingerprint
from fdarx_core.retrieval.index import ChunkFilter, IndexReader
from fdarx_core.retrieval.index.label_drugs import normalize_name
from fdarx_core.retrieval.index.near_copies import number_differences
from fdarx_core.retrieval.lexical import Mask, RankedList, tokenize
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed
from fdarx_core.retrieval.retrievers import Retriever
from fdarx_core.text.stems import is_stop_word

Role = Literal["hypothesis", "rewriter", "scorer", "answerer", "judge"]
"""The roles of models: hypothetical answers (at best by a model tuned on the domain), other wordings of the question, a
score for each chunk, the answer, a verdict on the answer.
"""

TaskCall: TypeAlias = tuple[Task[Any], Mapping[str, Any]]
"""A task and its slots."""

LabelT = TypeVar("LabelT", bound=OtherLabel)

LEAST_APART = 20
"""Passages from which they are ranked as a collection of their own: BM25Okapi gives a word that half of few passages
have no weight."""
EACH_DRUG_DEPTH = 200
"""Passages that are ranked where each drug is to come in turn."""
_LISTED_LABELS = 3
"""Other labels that a hit names."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A text to search with.

    Attributes:
        text: the text.
        share: how many of the candidates it contributes.
        is_question: whether it is encoded as a question, with the encoder's instruction, or as a passage.
        question: the question that was asked, if the text is another. The drugs that it names choose the labels that
            are searched; those that only a model has named do not.
    """

    text: str
    share: int
    is_question: bool
    question: str = ""


class RagBackend(Protocol):
    """The models and the index behind question answering: deployments in the service, actors in a job."""

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        """Return the responses of the model that plays the role, in order."""

    async def search(self, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int) -> list[list[SearchHit]]:
        """Return the k best chunks for each query, best first."""

    async def find_drugs(self, texts: Sequence[str]) -> list[list[Mention]] | None:
        """Return the places of each text that name drugs of the index's labels, in order; None for no labels."""

    async def absent_drugs(self, text: str) -> list[AbsentDrug]:
        """Return the medicines that a text names and that no label of the index is of."""

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers the question; higher is better."""

    @property
    def answerer(self) -> str:
        """The name of the model that writes the answers."""

    @property
    def max_context_characters(self) -> int | None:
        """How many characters of contexts the answering model can be shown; None for any number."""


class IndexNames:
    """The part of a `RagBackend` that finds names in an index which is open in this process."""

    def __init__(self, index: IndexReader) -> None:
        self._index = index

    async def find_drugs(self, texts: Sequence[str]) -> list[list[Mention]] | None:
        if not self._index.has_labels:
            return None
        names = self._index.label_drugs.names
        return await asyncio.to_thread(lambda: [names.find(text) for text in texts])

    async def absent_drugs(self, text: str) -> list[AbsentDrug]:
        return find_absent_drugs(self._index, text) if self._index.has_labels else []


def available_retrievers(index: IndexReader, directories: ModelDirectories) -> tuple[tuple[str, ...], str]:
    """Return the retrievers that can search the index on this machine, and why some are missing, else "".

    Loads no model. Raises ModelMissing where the given embedding model cannot be used, StorageError where it is not
    the index's.
    """
    info = index.manifest.encoder
    lexical = tuple(name for name in index.retrievers if not index.needs_vectors(name))
    if info is None or index.notice:
        return lexical, index.notice
    try:
        check_installed("cosine")
        directory = directories.of("cosine")
    except ModelMissing as error:
        if directories.cosine is not None:
            raise
        return lexical, f"only retrievers by words search: {error}"
    # the fingerprint is compared without loading the model, which takes seconds
    index.check_encoder(replace(info, name=Path(directory).name, fingerprint=fingerprint(directory)))
    return index.retrievers, ""


def search_index(
    index: IndexReader,
    queries: Sequence[SearchQuery],
    filter: ChunkFilter,
    k: int,
    retriever: str | Retriever,
    vectors: Vectors | None,
) -> list[list[SearchHit]]:
    """Return the k best chunks for each query.

    A query whose question names drugs of the index's labels returns only their chunks, and those of each drug in turn,
    unless the filter says otherwise: of 300 questions to a label, each among 699, BM25 put a passage of another drug's
    label first in 28 % without this rule. Passages of the labels that a query or a filter names are ranked as a
    collection of their own. Of passages of one drug that are near copies only that of the reference label is returned.
    Retrievers by words search with the words of `keywords`. With `ChunkFilter.each_drug`, the best passage of each drug
    comes first, then the second best of each.

    Uploaded labels change nothing of what a query names, see `ChunkTable.uploads_named`. Passages of uploads come in
    turn with the others, and one of these is the first.

    Args:
        index: the index to search.
        queries: what to search for.
        filter: which chunks may be returned.
        k: how many chunks to return for each query.
        retriever: a retriever, or its name.
        vectors: what `encode_queries` gives, row by row; None for retrievers that need no vectors.

    Raises ValueError for a retriever that cannot search this index, and for a wrong k.
    """
    found: list[list[SearchHit]] = []
    for at, query in enumerate(queries):
        vector = None if vectors is None else vectors[at : at + 1]
        best = partial(_best_passages, index, index.label_drugs.corrected(query.text), retriever, vector)
        named = _passages_of_drugs(index, query, filter)
        rankings = [(name, best(passing, k, apart=True)) for name, passing in named]
        if not named:
            passing = index.matching(filter)
            parts = [part for part in (passing & ~index.uploaded, passing & index.uploaded) if part.any()] or [passing]
            if filter.each_drug:
                ranked, *uploads = (best(part, max(k, EACH_DRUG_DEPTH), apart=False) for part in parts)
                # the uploads together come in turn as one more drug, so that many of them do not displace the labels
                first, *others = _by_drug(index, ranked) or [[]]
                parts_ranked = [first, *uploads, *others]
            else:
                parts_ranked = [best(part, k, apart=filter.chooses_labels) for part in parts]
            rankings = [("", ranking) for ranking in parts_ranked]
        names: dict[tuple[int, float], str] = {}
        for turn in zip_longest(*([(hit, name) for hit in ranking] for name, ranking in rankings)):
            for hit, name in (entry for entry in turn if entry is not None):
                names.setdefault(hit, name)
        hits = list(names.items())[:k]
        chunks = index.chunks([position for (position, _), _ in hits])
        scored = zip(chunks, hits, strict=True)
        found.append(
            [search_hit(index, chunk, position, score, at, name) for chunk, ((position, score), name) in scored]
        )
    return found


def _passages_of_drugs(index: IndexReader, query: SearchQuery, filter: ChunkFilter) -> list[tuple[str, Mask]]:
    """Return each drug that the question of a query names, and which passages of its labels pass the filter.

    One that names a product returns the passages of its labels, or else of all labels of its drug.
    """
    if filter.any_drug or filter.each_drug or filter.chooses_labels:
        return []
    passing, text = index.matching(filter), query.question or query.text
    found: list[tuple[str, Mask]] = []

    def add(name: str, *choices: Sequence[int]) -> None:
        """Add the first choice of documents that have passages."""
        masks = (passing & np.isin(index.documents, documents) for documents in choices)
        found.extend([(name, mask) for mask in masks if mask.any()][:1])

    for named in index.label_drugs.named(text):
        add(named.name, named.own, named.documents)
        add(named.name, index.uploaded_drugs.documents_of(named.drugs))
    for named in index.uploads_named(text):
        add(named.name, named.own, named.documents)
    return found


def _by_drug(index: IndexReader, ranked: RankedList) -> list[RankedList]:
    """Return a ranking apart for each drug, in the order of their first passages; documents of no drug stay together.

    A question such as "which labels mention edema" is thus answered from several drugs.
    """
    numbers, documents = index.label_drugs.numbers, index.documents
    groups: defaultdict[int, RankedList] = defaultdict(list)
    for position, score in ranked:
        groups[int(numbers[documents[position]])].append((position, score))
    return list(groups.values())


def _best_passages(
    index: IndexReader,
    text: str,
    retriever: str | Retriever,
    vectors: Vectors | None,
    passing: Mask,
    k: int,
    *,
    apart: bool,
) -> RankedList:
    """Return the k best passages for a text among the representatives of the passing ones, of shape (passages,).

    `apart`: whether the passing ones are ranked as a collection of their own, if they are not too few.
    """
    below_headings = passing & ~index.headings
    within = index.near_copies.representatives(below_headings if below_headings.any() else passing)
    apart = apart and int(within.sum()) >= LEAST_APART
    words = [keywords(text)]
    [ranked] = index.search([text], k, retriever=retriever, vectors=vectors, within=within, apart=apart, keywords=words)
    return ranked


def keywords(text: str) -> str:
    """Return the words of a text that are no stop words, in order; all of them if there is no other."""
    words = tokenize(text)
    return " ".join([word for word in words if word.isdigit() or not is_stop_word(word)] or words)


def search_hit(
    index: IndexReader, chunk: Chunk, position: int, score: float, search: int = 0, named: str = ""
) -> SearchHit:
    """Return a hit with what other labels of the drug have instead of its passage."""
    copies = index.near_copies_of(position)
    labels = {set_id: OtherLabel(set_id, drug, date) for set_id, drug, date, _ in copies}.values()
    differing: dict[str, list[OtherSentence]] = {}
    for text in dict.fromkeys(text for *_, text in copies):
        for sentence, also in dict(number_differences(chunk.text, text)).items():
            others = (OtherSentence(set_id, drug, date, also) for set_id, drug, date, own in copies if own == text)
            differing.setdefault(sentence, []).extend(others)
    return SearchHit(
        chunk,
        score,
        search,
        named=named,
        copies=len(labels),
        copied_by=_newest(labels),
        differences=[NumberDifference(sentence, _newest(differing[sentence])) for sentence in differing],
    )


def find_absent_drugs(index: IndexReader, text: str) -> list[AbsentDrug]:
    """Return the medicines that a text names and that no label of the index is of."""
    absent = [names for names in index.label_drugs.absent(text) if not any(map(index.uploads_named, names))]
    alone = bool(absent) and not index.label_drugs.named(text)
    found: list[AbsentDrug] = []
    for name, medicine in absent:
        labels = [OtherLabel(*label) for label in index.labels_with({name, medicine})]
        nearest = index.label_drugs.nearest(name)
        of_drugs = {normalize_name(label.drug): label for label in labels}.values()
        found.append(AbsentDrug(name, medicine, nearest, len(labels), _newest(of_drugs), alone))
    return found


def _newest(labels: Iterable[LabelT]) -> list[LabelT]:
    return sorted(labels, key=lambda label: label.effective_date, reverse=True)[:_LISTED_LABELS]


def encode_queries(encoder: SentenceEncoder, queries: Sequence[SearchQuery]) -> Vectors:
    """Return the vectors of the queries, shape (queries, dimensions); questions are encoded with the instruction."""
    vectors = np.empty((len(queries), encoder.dimensions), np.float32)
    for is_question, encode in ((True, encoder.encode_questions), (False, encoder.encode)):
        rows = [at for at, query in enumerate(queries) if query.is_question == is_question]
        if rows:
            vectors[rows] = encode([queries[at].text for at in rows])
    return vectors


def pool_candidates(found: Sequence[Sequence[SearchHit]], shares: Sequence[int]) -> list[SearchHit]:
    """Merge the hits of several queries by taking turns; no chunk and no text (white space aside) comes twice.

    A query whose next hit is already in the pool continues with the one after it, so that each query should find more
    than its share. The places that a query cannot fill go to the others.

    Args:
        found: the hits of each query, best first.
        shares: how many of the candidates each query contributes.

    Returns:
        The candidates, each with the number of the query that contributed it.

    Raises ValueError where `found` and `shares` differ in length.
    """
    hits = [iter(ranked) for ranked in found]
    pool: set[str | tuple[bool, str]] = set()

    def next_new(query: int) -> SearchHit | None:
        """Take the query's hits from its list up to one that is not in the pool."""
        for hit in hits[query]:
            # uploads are apart, because an upload takes the place of no other passage
            text = bool(hit.uploaded_by), " ".join(hit.chunk.text.split())
            if pool.isdisjoint((hit.chunk.id, text)):
                pool.update((hit.chunk.id, text))
                return replace(hit, search=query)
        return None

    def take_turns(due: dict[int, int], limit: int) -> Iterator[SearchHit]:
        """Yield one hit of each query in turn, until each has contributed what is due or has no more."""
        while due and limit:
            for query in list(due):
                hit = next_new(query) if limit else None
                due[query] -= 1
                if hit is None or not due[query]:
                    del due[query]
                if hit is not None:
                    limit -= 1
                    yield hit

    due = {query: share for query, (_, share) in enumerate(zip(found, shares, strict=True)) if share > 0}
    total = sum(shares)
    candidates = list(take_turns(due, total))
    return candidates + list(take_turns(dict.fromkeys(range(len(found)), total), total - len(candidates)))


def index_encoder(index: IndexReader, directories: ModelDirectories) -> SentenceEncoder:
    """Load the embedding model of an index, with its instruction for questions. Raises ModelMissing."""
    info = index.manifest.encoder
    instruction = info.instruction if info else None
    return SentenceEncoder(directories.of("cosine"), instruction=instruction, fast=True)
