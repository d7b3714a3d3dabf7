"""Exact search over the vectors of chunks."""

from __future__ import annotations

import numpy as np

from fdarx_core.retrieval.encoders import Vectors, WindowVectors
from fdarx_core.retrieval.index.vectors import VectorIndex
from tests.retrieval.index_chunks import single_windows


def clustered(count: int, seed: int) -> Vectors:
    """Unit vectors around 60 centres, as texts on 60 subjects would have."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((60, 16))
    rows = centres[random.integers(0, 60, count)] + 0.4 * random.standard_normal((count, 16))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows, np.float32)


ROWS, ASKED = clustered(4000, 1), clustered(50, 2)


def index_of(vectors: WindowVectors) -> VectorIndex:
    return VectorIndex([vectors], vectors.rows.shape[1])


def test_search_goes_by_the_best_window() -> None:
    """1,000 chunks of 1 to 7 windows; allowed chunks are returned, each once."""
    counts = np.random.default_rng(4).integers(1, 8, 1000)
    vectors = WindowVectors(clustered(int(counts.sum()), 6), counts)
    scores = vectors.scores(ASKED)
    for allowed in (None, np.arange(1000) % 3 == 0, np.arange(1000) < 20):
        found = index_of(vectors).search(ASKED, 10, allowed)
        for ranked, own in zip(found, scores, strict=True):
            passing = own if allowed is None else np.where(allowed, own, -np.inf)
            assert [at for at, _ in ranked] == np.argsort(-passing, kind="stable")[:10].tolist()


def test_equal_rows_come_in_order_however_many_and_whoever_else_asks() -> None:
    """FAISS adds up in another order for 20 questions or more, and keeps any of equals."""
    row, other = clustered(2, 5)
    rows = np.concatenate([np.tile(other, (50, 1)), np.tile(row, (700, 1)), ROWS])
    index = index_of(single_windows(rows))
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
    [found] = index_of(single_windows(rows)).search(asked[None], 5)
    assert [at for at, _ in found] == expected
