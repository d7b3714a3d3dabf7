"""A corpus in segments on disk is searched as one collection of all passages in memory is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from fdarx_core.labels import parse_document
from fdarx_core.records import Passage, to_table
from fdarx_core.retrieval import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.retrieval.corpus import CorpusCollection, CorpusFiles, CorpusPassages, open_corpus, write_vectors
from fdarx_core.retrieval.corpus_postings import merge_statistics, write_postings
from fdarx_core.retrieval.encoders import Vectors, WindowVectors
from fdarx_core.retrieval.lexical import Mask, RankedList, tokenize, top_k
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.mapped_files import write_mappable
from tests.conftest import EXAMPLES

K = 10
WORDS = ["dose", "mg", "renal", "the", "of", "5"]
few_words = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


def passage(number: int, text: str) -> Passage:
    return Passage(f"set-{number}", number, 0, "", "", "", "", "", text)


def write(
    folder: Path, passages: Sequence[Passage], cuts: Sequence[int], vectors: WindowVectors | None = None
) -> CorpusFiles:
    """Write the passages in segments that begin at the cuts."""
    files: dict[str, list[Path]] = {"postings": [], "passages": [], "vectors": []}
    for number, (start, stop) in enumerate(pairwise([0, *cuts, len(passages)])):
        names = {kind: folder / f"{kind}-{number}.arrow" for kind in files}
        own = passages[start:stop]
        write_postings(Location(names["postings"]), [passage_search_text(one) for one in own])
        write_mappable(Location(names["passages"]), to_table(own, Passage))
        if vectors is not None:
            write_vectors(Location(names["vectors"]), vectors.select(slice(start, stop)))
        for kind, name in names.items():
            files[kind].append(name)
    statistics = folder / "statistics.arrow"
    merge_statistics(map(Location, files["postings"]), Location(statistics))
    by_encoder = {} if vectors is None else {"cosine": files["vectors"]}
    return CorpusFiles(statistics, files["postings"], files["passages"], by_encoder)


def by_rank_bm25(texts: Sequence[str], queries: Sequence[str]) -> list[RankedList]:
    index = BM25Okapi([tokenize(text) for text in texts])
    scores = [index.get_scores(tokenize(query)).tolist() for query in queries]
    return [sorted(enumerate(row), key=lambda item: (-item[1], item[0]))[:K] for row in scores]


@given(st.lists(few_words, min_size=1, max_size=14), st.lists(few_words, min_size=1, max_size=3), st.data())
def test_rankings_and_ties_are_those_of_one_collection(
    texts: list[str], queries: list[str], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=4)))
    passages = [passage(number, text) for number, text in enumerate(texts)]
    allowed = data.draw(st.none() | st.lists(st.booleans(), min_size=len(texts), max_size=len(texts)).map(np.array))
    k, matching = data.draw(st.integers(0, 16)), data.draw(st.booleans())
    with TemporaryDirectory() as folder:
        corpus, _ = open_corpus(write(Path(folder), passages, cuts))
        whole = Collection([passage_search_text(one) for one in passages])
        for ours, theirs in ((corpus.bm25, whole.bm25), (corpus.tfidf, whole.tfidf)):
            found = ours.rank(queries, k, allowed, matching_only=matching)
            assert found == theirs.rank(queries, k, allowed, matching_only=matching)
            scores = theirs.scores(queries)
            assert np.array_equal(ours.scores(queries), scores)
            assert np.array_equal(ours.matches(queries, scores), theirs.matches(queries, scores))


@pytest.fixture(scope="module")
def passages() -> list[Passage]:
    """Those of the example labels, some of them twice, so that passages tie across segments."""
    found = [one for file in sorted(EXAMPLES.glob("*.xml")) for one in parse_document(file.read_bytes())[1]]
    return [*found, *found[::3]]


@pytest.fixture(scope="module")
def queries(passages: list[Passage]) -> list[str]:
    return [" ".join(one.text.split()[:12]) for one in passages[::9]]


@pytest.fixture(scope="module")
def vectors(passages: list[Passage]) -> WindowVectors:
    """Vectors of one to three windows; equal passages have equal ones."""
    rng, known = np.random.default_rng(0), dict[str, Vectors]()
    found = [known.setdefault(one.text, unit(rng, 1 + number % 3)) for number, one in enumerate(passages)]
    return WindowVectors(np.concatenate(found), np.array([len(one) for one in found]))


def unit(rng: np.random.Generator, rows: int) -> Vectors:
    found: Vectors = rng.standard_normal((rows, 384)).astype(np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


@pytest.fixture(scope="module")
def corpus(
    passages: list[Passage], vectors: WindowVectors, tmp_path_factory: pytest.TempPathFactory
) -> tuple[CorpusCollection, CorpusPassages]:
    size = len(passages)
    return open_corpus(
        write(tmp_path_factory.mktemp("corpus"), passages, [1, size // 3, size // 3, size // 2], vectors)
    )


@pytest.fixture(scope="module")
def whole(passages: list[Passage], vectors: WindowVectors) -> Collection:
    filling = -len(vectors.rows) % 64
    rows = np.concatenate([vectors.rows, np.zeros((filling, vectors.rows.shape[1]), np.float32)])
    filled = WindowVectors(rows, np.array([*vectors.counts, *([filling] if filling else [])]))

    def nearest(queries: Vectors, k: int, allowed: Mask | None) -> list[RankedList]:
        scores = [filled.scores(one[None])[0, : len(vectors)] for one in queries]
        return top_k(np.array(scores), k, allowed)

    return Collection([passage_search_text(one) for one in passages], searches={"cosine": nearest})


def test_bm25_is_rank_bm25_over_all_passages(
    corpus: tuple[CorpusCollection, CorpusPassages], whole: Collection, queries: list[str]
) -> None:
    found = get_retriever("bm25").rank(Queries(queries), corpus[0], K)
    assert found == by_rank_bm25(whole.texts, queries)
    assert any(len({score for _, score in ranked}) < K for ranked in found)


def shortest_first(pairs: Sequence[tuple[str, str]]) -> list[float]:
    return [-float(len(text)) for _, text in pairs]


@pytest.mark.parametrize("name", ["tfidf", "cosine", "hybrid", "bm25+rerank", "hybrid+rerank"])
def test_other_retrievers_rank_as_in_memory(
    name: str, corpus: tuple[CorpusCollection, CorpusPassages], whole: Collection, queries: list[str]
) -> None:
    asked = Queries(queries, {"cosine": unit(np.random.default_rng(1), len(queries))})
    retriever = get_retriever(name, shortest_first)
    assert retriever.rank(asked, corpus[0], K) == retriever.rank(asked, whole, K)


def test_passages_and_texts_are_read_where_they_are_asked_for(
    corpus: tuple[CorpusCollection, CorpusPassages], passages: list[Passage], whole: Collection
) -> None:
    collection, found = corpus
    assert len(found) == len(passages) and list(found) == passages
    assert [found[0], found[-1], *found[5:40:7]] == [passages[0], passages[-1], *passages[5:40:7]]
    assert list(collection.texts) == list(whole.texts) and collection.texts[-2] == whole.texts[-2]
    assert collection.inverted_index.vocabulary == whole.inverted_index.vocabulary
    with pytest.raises(IndexError):
        found[len(passages)]


def test_no_passages_are_no_error(tmp_path: Path) -> None:
    collection, found = open_corpus(write(tmp_path, [], []))
    assert len(found) == 0
    for name in ("bm25", "tfidf"):
        assert get_retriever(name).rank(Queries(["dose", ""]), collection, 3) == [[], []]


def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    files = write(tmp_path, [passage(0, "renal dose"), passage(1, "liver")], [1])
    files.postings[1].write_bytes(files.postings[1].read_bytes()[:100])
    with pytest.raises(StorageError, match=r"postings-1\.arrow is damaged"):
        open_corpus(files)
