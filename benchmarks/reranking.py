"""Throughput of the reranker's deployment: concurrent requests compared with sequential requests.

    python -m benchmarks.reranking [--model DIRECTORY] [--requests 16]

The deployment runs on Ray Serve; a request is a question with 24 candidates, as in QA-RAG. Sequential requests take one
call of the model each; concurrent requests share calls. The floor is one call of the model with all pairs, without
Serve. Without --model, the model has random weights and is so small that the overhead of a call is measurable; a
larger model gains less on a CPU, and more on a GPU. Exits 1 if concurrent requests do not score at least 1.3 times as
many pairs a second.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import run
from fdarx_core.retrieval.encoders import Reranker, bge_reranker
from serving.config import SERVE_VARIABLES
from tests.retrieval import tiny_rerankers
from tests.serving.counted_reranker import Counted

ROUNDS = 5
CANDIDATES, SENTENCES = 24, 12
LEAST = 1.3

_SIZES = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}

RerankRequest = tuple[str, list[str]]


def made_requests(count: int) -> list[RerankRequest]:
    """Return distinct questions with their candidates."""
    sentences = tiny_rerankers.sentences()
    return [
        (sentences[number % len(sentences)], tiny_rerankers.passages(CANDIDATES, SENTENCES, seed=number))
        for number in range(count)
    ]


@contextmanager
def deployed(directory: str) -> Iterator[Any]:
    """Deploy the reranker as `fdarx serve` does; yield its handle."""
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", **SERVE_VARIABLES, **os.environ})
    import ray
    from ray import serve

    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}}
    ray.init(address="local", include_dashboard=False, log_to_driver=False, runtime_env=environment)
    try:
        made = serve.deployment(max_ongoing_requests=1024, ray_actor_options={"num_cpus": 0.1})(Counted)
        yield serve.run(made.bind(directory), name="reranker", route_prefix=None)
    finally:
        serve.shutdown()  # type: ignore[no-untyped-call]
        ray.shutdown()


async def sequential(handle: Any, asked: list[RerankRequest]) -> None:
    for one in asked:
        await handle.score.remote(*one)


async def concurrent(handle: Any, asked: list[RerankRequest]) -> None:
    await asyncio.gather(*(handle.score.remote(*one) for one in asked))


async def floor(rerank: Reranker, asked: list[RerankRequest]) -> None:
    """Score all pairs in one call."""
    await asyncio.to_thread(rerank, [(question, text) for question, texts in asked for text in texts])


async def seconds(way: Any, *arguments: Any) -> float:
    start = time.perf_counter()
    await way(*arguments)
    return time.perf_counter() - start


async def measure(handle: Any, rerank: Reranker, asked: list[RerankRequest]) -> float:
    """Return the median over rounds of sequential ÷ concurrent time; the first round is a warm-up."""
    pairs, ratios = sum(len(texts) for _, texts in asked), []
    for number in range(ROUNDS + 1):
        alone, before = await seconds(sequential, handle, asked), len(await handle.calls.remote())
        shared, calls = await seconds(concurrent, handle, asked), len(await handle.calls.remote()) - before
        least = await seconds(floor, rerank, asked)
        rates = [pairs / taken for taken in (alone, shared, least)]
        line = "pairs/s: sequential {:5.0f}   concurrent {:5.0f} in {} calls   floor {:5.0f}   ratio {:.2f}"
        if number:
            ratios.append(alone / shared)
            print(" ", line.format(*rates[:2], calls, rates[2], ratios[-1]))
    return median(ratios)


def main(*, model: str | None = None, requests: int = 16) -> int:
    """Print rounds and the ratio; return 1 if it is too low."""
    asked = made_requests(requests)
    with tempfile.TemporaryDirectory() as folder:
        directory = model or tiny_rerankers.cross_encoder("bert", Path(folder), _SIZES)
        print(f"{len(asked)} requests of {CANDIDATES} pairs, {'' if model else 'random weights, '}{_SIZES}")
        with deployed(directory) as handle:
            ratio = asyncio.run(measure(handle, bge_reranker(directory), asked))
    print(f"concurrent ÷ sequential throughput, median: {ratio:.2f} (at least {LEAST})")
    return int(ratio < LEAST)


if __name__ == "__main__":
    run(main)
