"""Reranking many requests at once: through the reranker's deployment, together and one after another.

    python -m benchmarks.reranking [--model DIRECTORY] [--requests 16]

The deployment runs on Ray Serve here; a request is a question with its 24 candidates, as QA-RAG has it. One after
another, each request is a call of the model; together, requests that wait share calls. The floor is one plain call of
the model with all pairs, without Serve. Without a model's directory, one of random weights is made, so small that what
a call costs beside the model's arithmetic shows; a larger one gains less on a CPU, more on a GPU. Exits 1 where
together scores less than 1.3 times as many pairs a second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from fdarx_core.retrieval.encoders import BgeReranker
from serving.config import SERVE_VARIABLES
from tests.retrieval import tiny_rerankers
from tests.serving.counted_reranker import Counted

ROUNDS = 5
CANDIDATES, SENTENCES = 24, 12
LEAST = 1.3

_SIZES = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}

Asked = tuple[str, list[str]]


def requests(count: int) -> list[Asked]:
    """Questions and candidates; one differs from the next."""
    sentences = tiny_rerankers.sentences()
    return [
        (sentences[number % len(sentences)], tiny_rerankers.passages(CANDIDATES, SENTENCES, seed=number))
        for number in range(count)
    ]


@contextmanager
def deployed(directory: str) -> Iterator[Any]:
    """A handle of the deployment, as `fdarx serve` runs it."""
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


async def one_by_one(handle: Any, asked: list[Asked]) -> None:
    for one in asked:
        await handle.score.remote(*one)


async def together(handle: Any, asked: list[Asked]) -> None:
    await asyncio.gather(*(handle.score.remote(*one) for one in asked))


async def floor(model: BgeReranker, asked: list[Asked]) -> None:
    """One call with all pairs."""
    await asyncio.to_thread(model.score, [(question, text) for question, texts in asked for text in texts])


async def seconds(way: Any, *arguments: Any) -> float:
    start = time.perf_counter()
    await way(*arguments)
    return time.perf_counter() - start


async def measure(handle: Any, model: BgeReranker, asked: list[Asked]) -> float:
    """The median over rounds of one after another over together; the first round warms up."""
    pairs, ratios = sum(len(texts) for _, texts in asked), []
    for number in range(ROUNDS + 1):
        alone, before = await seconds(one_by_one, handle, asked), len(await handle.calls.remote())
        shared, calls = await seconds(together, handle, asked), len(await handle.calls.remote()) - before
        least = await seconds(floor, model, asked)
        rates = [pairs / taken for taken in (alone, shared, least)]
        line = "pairs/s: one after another {:5.0f}   together {:5.0f} in {} calls   floor {:5.0f}   ratio {:.2f}"
        if number:
            ratios.append(alone / shared)
            print(" ", line.format(*rates[:2], calls, rates[2], ratios[-1]))
    return median(ratios)


def main() -> int:
    """Print rounds and the ratio; exit 1 where it falls short."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="directory of a BGE reranker")
    parser.add_argument("--requests", type=int, default=16)
    options = parser.parse_args()
    asked = requests(options.requests)
    with tempfile.TemporaryDirectory() as folder:
        directory = options.model or tiny_rerankers.cross_encoder("bert", Path(folder), _SIZES)
        print(f"{len(asked)} requests of {CANDIDATES} pairs, {'' if options.model else 'random weights, '}{_SIZES}")
        with deployed(directory) as handle:
            ratio = asyncio.run(measure(handle, BgeReranker(directory), asked))
    print(f"together over one after another, median: {ratio:.2f} (at least {LEAST})")
    return int(ratio < LEAST)


if __name__ == "__main__":
    sys.exit(main())
