"""The service with local models of random weights: vectors of questions, and a reranker shared by requests."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fdarx_core.records import Chunk
from fdarx_core.retrieval.encoders import SentenceEncoder, bge_reranker
from fdarx_core.retrieval.index import IndexStore
from fdarx_core.retrieval.index.chunk_table import headed_chunk
from jobs import cli
from tests.retrieval import tiny_models
from tests.serving.service_process import Service, free_port, post, running

for library in ("sentence_transformers", "faiss"):
    pytest.importorskip(library, reason=f"needs {library}: pip install 'fdarx[models,faiss]'")

pytestmark = pytest.mark.models
WORDS = ["dose", "tablet", "water", "stored", "bottle", "twice", "daily", "adults", "children", "meal"]
TEXTS = [f"{one} {two} {WORDS[(number * 7) % 10]}" for number, one in enumerate(WORDS) for two in WORDS if one != two]
QUESTION = "dose daily children"
CLIENTS = 12


def encoder(folder: Path, words: list[str]) -> str:
    """As sentence-transformers saves it."""
    library = pytest.importorskip("sentence_transformers")
    library.SentenceTransformer(tiny_models.encoder(words, folder / "plain"), device="cpu").save(str(folder / "model"))
    return str(folder / "model")


@pytest.fixture(scope="module")
def cosine_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return encoder(tmp_path_factory.mktemp("encoder"), WORDS)


@pytest.fixture(scope="module")
def reranker_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_models.cross_encoder(WORDS, tmp_path_factory.mktemp("reranker"))


@pytest.fixture(scope="module")
def index(cosine_model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder, model = tmp_path_factory.mktemp("index"), SentenceEncoder(cosine_model)
    chunks = [Chunk(f"c{n}", "leaflet", "", "leaflet.txt", "", text, n, 0) for n, text in enumerate(TEXTS)]
    store = IndexStore(str(folder))
    store.commit(
        [store.write_segment(chunks, model.encode_passages([headed_chunk(one) for one in chunks]), model.info)]
    )
    return str(folder)


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def service(
    index: str, cosine_model: str, reranker_model: str, metrics_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    options = ("--index", f"leaflet={index}", "--cosine-model", cosine_model, "--reranker-model", reranker_model)
    with running(tmp_path_factory.mktemp("service"), *options, "--metrics-port", str(metrics_port)) as started:
        yield started


def search(service: Service, *bodies: dict[str, Any]) -> list[dict[str, Any]]:
    """All at once."""

    async def run() -> list[tuple[int, dict[str, Any]]]:
        async with aiohttp.ClientSession(service.url) as session:
            return await asyncio.gather(*(post(session, "/v1/search", {"question": QUESTION, **one}) for one in bodies))

    found = asyncio.run(run())
    assert {status for status, _ in found} == {200}, found
    return [reply for _, reply in found]


def test_vectors_find_the_nearest(service: Service, cosine_model: str) -> None:
    asked = SentenceEncoder(cosine_model, fast=True).encode_questions([QUESTION])[0]
    nearness = SentenceEncoder(cosine_model).encode(TEXTS) @ asked
    [reply] = search(service, {"retriever": "cosine", "k": 5, "postprocess": "none"})
    scores = [passage["score"] for passage in reply["passages"]]
    assert scores == pytest.approx(sorted(nearness.tolist(), reverse=True)[:5], abs=1e-5)
    [hybrid] = search(service, {"retriever": "hybrid", "postprocess": "none"})
    assert len(hybrid["passages"]) == 6


def test_reranker_scores_as_alone(service: Service, reranker_model: str) -> None:
    [reply] = search(service, {"postprocess": "rerank"})
    texts = [passage["text"] for passage in reply["passages"]]
    alone = bge_reranker(reranker_model)([(QUESTION, text) for text in texts])
    assert [passage["rerank"] for passage in reply["passages"]] == pytest.approx(alone, abs=1e-4)
    assert alone == sorted(alone, reverse=True)


def test_requests_share_the_rerankers_calls(service: Service, metrics_port: int) -> None:
    before = _counted(metrics_port)
    together = search(service, *({"postprocess": "rerank", "candidates": len(TEXTS)} for _ in range(CLIENTS)))
    assert len({tuple(passage["chunk_id"] for passage in one["passages"]) for one in together}) == 1
    end = time.monotonic() + 60  # Ray gathers them every few seconds
    while _counted(metrics_port)["requests"] - before["requests"] < CLIENTS:
        assert time.monotonic() < end
        time.sleep(1)
    assert _counted(metrics_port)["calls"] - before["calls"] < CLIENTS


def test_index_of_another_model(index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", "--index", index, "--cosine-model", encoder(tmp_path, [*WORDS, "other"])])
    assert ended.value.code == 2
    assert "give the model that made it" in capsys.readouterr().err.splitlines()[-1]


def _counted(port: int) -> dict[str, float]:
    """The reranker's calls so far, and the requests in them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    found = {of: re.search(rf"^ray_fdarx_rerank_{of}_total{{.*}} (\S+)", text, re.M) for of in ("calls", "requests")}
    return {of: float(one[1]) if one else 0.0 for of, one in found.items()}
