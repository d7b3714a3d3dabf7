"""The approximate kinds of index, made small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fdarx_core.records import Chunk
from fdarx_core.retrieval.encoders import Vectors, WindowVectors
from fdarx_core.retrieval.index import ChunkFilter, EncoderInfo, IndexReader, IndexStore, Manifest
from fdarx_core.retrieval.index.vectors import VectorIndex, choose_kind, make_faiss_index
from fdarx_core.retrieval.lexical import RankedList
from tests.retrieval.index_chunks import document, single_windows

ENCODER = EncoderInfo("clusters", "c0", 16)
LIMITS = {"hnsw": (500, 100_000), "ivf": (500, 1000)}


def clustered(count: int, seed: int) -> Vectors:
    """Unit vectors around 60 centres, as texts on 60 subjects would have."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((60, 16))
    rows = centres[random.integers(0, 60, count)] + 0.4 * random.standard_normal((count, 16))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows, np.float32)


ROWS, ASKED = clustered(4000, 1), clustered(50, 2)
VECTORS = single_windows(ROWS)
CHUNKS: list[Chunk] = [
    chunk for at in range(40) for chunk in document(f"d{at}", [""] * 100, title="rare" if at < 2 else "common")
]


@pytest.fixture(scope="module", params=["hnsw", "ivf"])
def built(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, IndexReader]:
    folder = tmp_path_factory.mktemp(request.param)
    store = IndexStore(str(folder), limits=LIMITS[request.param])
    names = [
        store.write_segment(CHUNKS[at : at + 1000], VECTORS.select(slice(at, at + 1000)), ENCODER)
        for at in range(0, 4000, 1000)
    ]
    manifest = store.commit(names)
    assert manifest.approximate is not None
    assert manifest.approximate.kind == request.param
    return manifest, IndexReader.open(str(folder))


def exact_index(vectors: WindowVectors) -> VectorIndex:
    return VectorIndex(make_faiss_index("exact", [vectors.rows], vectors.rows.shape[1]), vectors.counts)


def exact(k: int, allowed: np.ndarray) -> list[RankedList]:
    [*found] = exact_index(VECTORS).search(ASKED, k, allowed)
    return found


def recall(found: list[RankedList], right: list[RankedList]) -> float:
    hits = [len(dict(one).keys() & dict(other)) / len(other) for one, other in zip(found, right, strict=True)]
    return float(np.mean(hits))


def search(index: IndexReader, k: int, only: ChunkFilter) -> list[RankedList]:
    return index.search([""] * len(ASKED), k, retriever="cosine", vectors=ASKED, filter=only)


@pytest.mark.parametrize(
    "only", [ChunkFilter(), ChunkFilter(title="common"), ChunkFilter(exclude=tuple(f"d{at}" for at in range(30)))]
)
def test_approximate_search_finds_nine_of_ten(built: tuple[Manifest, IndexReader], only: ChunkFilter) -> None:
    _, index = built
    allowed = index.matching(only)
    found = search(index, 10, only)
    assert all(len(ranked) == 10 and allowed[list(dict(ranked))].all() for ranked in found)
    assert recall(found, exact(10, allowed)) >= 0.9
    for question, ranked in zip(ASKED, found, strict=True):
        assert [score for _, score in ranked] == pytest.approx([float(ROWS[at] @ question) for at, _ in ranked])


def test_few_rows_that_pass_are_searched_exactly(built: tuple[Manifest, IndexReader]) -> None:
    _, index = built
    for only in (ChunkFilter(title="rare"), ChunkFilter(exclude=tuple(f"d{at}" for at in range(35)))):
        assert search(index, 50, only) == exact(50, index.matching(only))


@pytest.mark.parametrize("only", [ChunkFilter(), ChunkFilter(title="common")])
def test_no_row_is_missing_where_many_are_asked_for(built: tuple[Manifest, IndexReader], only: ChunkFilter) -> None:
    _, index = built
    allowed = index.matching(only)
    assert search(index, 4000, only) == exact(4000, allowed)


def test_a_version_without_some_documents_has_an_index_of_its_own(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path), limits=LIMITS["hnsw"])
    first = store.commit([store.write_segment(CHUNKS, VECTORS, ENCODER)])
    second = store.commit([], remove=["d0"])
    assert first.approximate != second.approximate
    index = IndexReader.open(str(tmp_path))
    allowed = np.arange(4000) >= 100
    found = [[(at + 100, score) for at, score in ranked] for ranked in search(index, 10, ChunkFilter())]
    assert recall(found, exact(10, allowed)) >= 0.9
    third = store.commit([], remove=[f"d{at}" for at in range(36)])
    assert third.approximate is None
    assert len(IndexReader.open(str(tmp_path), version=first.version)) == 4000


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_approximate_search_goes_by_the_best_window(kind: str, tmp_path: Path) -> None:
    """1,000 chunks of 1 to 7 windows; chunks are returned, each once."""
    counts = np.random.default_rng(4).integers(1, 8, 1000)
    vectors = WindowVectors(clustered(int(counts.sum()), 6), counts)
    store = IndexStore(str(tmp_path), limits=LIMITS[kind])
    manifest = store.commit([store.write_segment(CHUNKS[:1000], vectors, ENCODER)])
    assert manifest.approximate is not None and manifest.approximate.kind == kind
    assert (manifest.chunks, manifest.windows) == (1000, int(counts.sum()))
    index = IndexReader.open(str(tmp_path))
    for only in (ChunkFilter(), ChunkFilter(title="common")):
        found = search(index, 10, only)
        assert all(len({at for at, _ in ranked}) == 10 for ranked in found)
        assert recall(found, exact_index(vectors).search(ASKED, 10, index.matching(only))) >= 0.9


def test_the_rule() -> None:
    assert [choose_kind(count) for count in (0, 1_000_000, 1_000_001, 20_000_000, 20_000_001)] == [
        "exact",
        "exact",
        "hnsw",
        "hnsw",
        "ivf",
    ]


def test_equal_rows_come_in_order_however_many_and_whoever_else_asks() -> None:
    """FAISS adds up in another order for 20 questions or more, and keeps any of equals."""
    row, other = clustered(2, 5)
    rows = np.concatenate([np.tile(other, (50, 1)), np.tile(row, (700, 1)), ROWS])
    index = exact_index(single_windows(rows))
    [alone] = index.search(row[None], 9)
    assert [at for at, _ in alone] == list(range(50, 59))
    together = index.search(np.concatenate([row[None], ASKED]), 9)
    assert together[0] == alone
    assert together[1:] == [index.search(one[None], 9)[0] for one in ASKED]


def test_rows_that_differ_by_less_than_faiss_adds_up_are_in_the_right_order() -> None:
    random = np.random.default_rng(3)
    base, question = random.standard_normal((2, 1024))
    rows = (base + 3e-7 * random.standard_normal((3000, 1024))).astype(np.float32)
    asked = question.astype(np.float32)
    scores = (rows.astype(np.float64) @ asked.astype(np.float64)).astype(np.float32)
    expected = sorted(range(3000), key=lambda at: (-scores[at], at))[:5]
    [found] = exact_index(single_windows(rows)).search(asked[None], 5)
    assert [at for at, _ in found] == expected
