"""The reranker's deployment on Ray Serve, with a tiny model: requests that come together are scored together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from fdarx_core.retrieval.encoders import bge_reranker
from serving.backend import call
from serving.replicas import ReplicaWatch
from tests.conftest import REPOSITORY
from tests.retrieval import tiny_rerankers
from tests.serving.counted_reranker import Constant, Counted

pytest.importorskip("sentence_transformers")

pytestmark = pytest.mark.models

REQUESTS, CANDIDATES = 16, 24


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_rerankers.cross_encoder("bert", tmp_path_factory.mktemp("reranker"))


@pytest.fixture(scope="module", autouse=True)
def ray_serve() -> Iterator[None]:
    """Ray and Serve, on this machine, without the proxies of HTTP."""
    import ray
    from ray import serve

    ray.init(address="local", include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": str(REPOSITORY)}})
    serve.start(proxy_location="Disabled")
    yield
    serve.shutdown()  # type: ignore[no-untyped-call]
    ray.shutdown()


@pytest.fixture(scope="module")
def handle(ray_serve: None, directory: str) -> Any:
    from ray import serve

    made = serve.deployment(max_ongoing_requests=64, ray_actor_options={"num_cpus": 0.1})(Counted)
    return serve.run(made.bind(directory), name="reranker", route_prefix=None)


def test_a_deployment_is_called_as_soon_as_it_runs() -> None:
    """The watch began before the deployment had a replica."""
    from ray import serve

    async def first_call() -> list[float]:
        watch = ReplicaWatch("later")
        watching = asyncio.create_task(watch.run())
        made = serve.deployment(ray_actor_options={"num_cpus": 0.1})(Constant)
        later: Any = await asyncio.to_thread(serve.run, made.bind(), name="later", route_prefix=None)
        scores: list[float] = await call(watch, later.score, "a dose", ["a daily dose"], part="the reranker")
        watching.cancel()
        return scores

    assert len(asyncio.run(first_call())) == 1


@pytest.mark.nightly  # test_serve_models and test_batching show the same
def test_requests_share_calls_and_each_gets_its_own_scores(handle: Any, directory: str) -> None:
    sentences = tiny_rerankers.sentences()
    asked = [
        (sentences[number], tiny_rerankers.passages(CANDIDATES - number % 3, 12, seed=number))
        for number in range(REQUESTS)
    ]

    async def one_soon_after_the_other() -> list[list[float]]:
        async def ask(number: int) -> list[float]:
            await asyncio.sleep(0.005 * number)
            scores: list[float] = await handle.score.remote(*asked[number])
            return scores

        return list(await asyncio.gather(*map(ask, range(REQUESTS))))

    scored = asyncio.run(one_soon_after_the_other())
    calls = handle.calls.remote().result()
    assert sum(calls) == sum(len(texts) for _, texts in asked)
    assert len(calls) <= REQUESTS / 2
    alone = bge_reranker(directory)
    for (question, texts), scores in zip(asked, scored, strict=True):
        assert scores == pytest.approx(alone([(question, text) for text in texts]), abs=1e-5)
