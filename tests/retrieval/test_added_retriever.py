"""A retriever that a package outside the project registers works wherever the built-in ones do."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest

import fdarx_core as fdarx
from fdarx_core.factuality.evidence.sources import open_evidence
from fdarx_core.factuality.evidence.subjects import ClaimQuery
from fdarx_core.plugins import PluginError
from fdarx_core.records import Ranking
from fdarx_core.retrieval import Collection, Queries, get_retriever
from fdarx_core.retrieval.index import IndexStore
from fdarx_core.storage import read_records
from tests.conftest import EXAMPLES
from tests.retrieval.index_chunks import label

MODULE = '''
from dataclasses import dataclass

import numpy as np

from fdarx_core.retrieval import top_k


@dataclass(frozen=True)
class LastFirst:
    """Ranks the last passage first."""

    name: str = "last_first"
    encoders: frozenset[str] = frozenset()

    def rank(self, queries, collection, k, allowed=None):
        scores = np.arange(len(collection.texts), dtype=float)
        return top_k(np.tile(scores, (len(queries.texts), 1)), k, allowed)
'''
CHUNKS = [
    *label("s1", "Velora", [("1 USES", "pain"), ("2 DOSE", "one tablet")]),
    *label("s2", "Mirapan", [("1 USES", "fever"), ("2 DOSE", "two tablets")]),
]


def install(folder: Path, name: str, entry_points: str, source: str = "") -> None:
    """Install a package, as pip does: a module, and metadata with entry points."""
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fdarx.retrievers]\n{entry_points}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    install(folder, "outside_retriever", "last_first = outside_retriever:LastFirst", MODULE)
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> str:
    store = IndexStore(str(tmp_path / "index"))
    store.commit([store.write_segment(CHUNKS)])
    return str(tmp_path / "index")


@pytest.mark.usefixtures("packages")
def test_in_evaluate(tmp_path: Path) -> None:
    labels = [EXAMPLES / f"{name}-tablets.xml" for name in ("telvanto", "corvaxolin")]
    build = fdarx.build(labels, tmp_path / "build", twins=3)
    run = fdarx.evaluate(
        build, out=tmp_path / "run", settings=["retrieved"], retrievers=["last_first", "bm25"], resamples=100
    )
    rankings = [row for part in run.parts("rankings/last_first") for row in read_records(part, Ranking)]
    assert rankings and all(row.retriever == "last_first" for row in rankings)
    assert all(row.ranked == sorted(row.ranked, reverse=True) for row in rankings)
    assert "last_first" in (tmp_path / "run" / "metrics.json").read_text()


@pytest.mark.usefixtures("packages")
def test_in_an_index_and_with_a_reranker(place: str) -> None:
    def shortest_first(pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [-float(len(text)) for _, text in pairs]

    index = fdarx.Index.open(place)
    assert index.retrievers == ("bm25", "tfidf", "last_first")
    assert [hit.text for hit in index.search("dose", 2, retriever="last_first")] == ["two tablets", "fever"]
    assert [hit.text for hit in index.search("dose", 9, retriever="last_first", drug="velora")] == [
        "one tablet",
        "pain",
    ]
    assert index.answer("How many tablets of Mirapan are taken?", retriever="last_first").contexts[0].set_id == "s2"
    [ranked] = get_retriever("last_first+rerank", shortest_first).rank(
        Queries(["dose"]), Collection(["a long passage", "short", "shorter"]), 2
    )
    assert [position for position, _ in ranked] == [1, 2]


@pytest.mark.usefixtures("packages")
def test_in_evidence(place: str) -> None:
    claim = ClaimQuery("Mirapan is taken as two tablets.", "How is it taken?", drug="Mirapan")
    source = open_evidence(f"index:{place}", retriever="last_first")
    assert [one.text for one in source.find([claim], 2)[0]] == ["two tablets", "fever"]
    assert source.identity["retriever"] == "last_first"


@pytest.mark.usefixtures("packages")
def test_in_the_service(place: str) -> None:
    from fdarx_core.rag.query import RagQuery
    from fdarx_core.specs.serve import ServiceConfig
    from serving.retriever import RetrieverDeployment

    async def search() -> list[str]:
        deployment = RetrieverDeployment(ServiceConfig(corpora={"labels": place}, poll_s=60))
        [corpus] = await deployment.corpora()
        assert "last_first" in corpus.retrievers
        result = await deployment.search("labels", RagQuery("What is the dose?", 2, retriever="last_first"))
        assert result is not None
        return [hit.text for hit in result.contexts]

    assert asyncio.run(search()) == ["two tablets", "fever"]


def test_a_broken_package_fails_only_those_who_ask_for_it(packages: Path, place: str) -> None:
    install(packages, "broken_retriever", "broken = broken_retriever:Missing")
    importlib.invalidate_caches()
    assert fdarx.Index.open(place).retrievers == ("bm25", "tfidf", "last_first")
    with pytest.raises(PluginError, match=r"package broken_retriever 1\.0 .* 'broken' .*AttributeError"):
        get_retriever("broken")


def test_two_packages_with_the_same_name_are_refused(packages: Path) -> None:
    install(packages, "other_retriever", "last_first = other_retriever:Other")
    importlib.invalidate_caches()
    with pytest.raises(PluginError, match=r"package \w+ 1\.0 and package \w+ 1\.0 both .* 'last_first'"):
        get_retriever("last_first")
