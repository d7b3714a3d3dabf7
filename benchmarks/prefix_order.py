"""What the order of requests saves: full-label questions as a sweep orders them, and at random, to a real engine.

    python -m benchmarks.prefix_order [--run BUILD] [--labels 24] [--replicas 1 2]

Labels and questions are those of a real build (made of $FDARX_DATA where none is given), ten questions a label, whose
text is cut at 16,000 characters, as FDARxBench's code does. The model is small, with random weights, on vLLM for CPU,
but large enough that reading prompts is most of its work, as with real ones; its cache holds a sixth of the labels. A
bare engine, asked one label after the other, is the reference. Ray Serve, with one replica and with two behind the
router by prefix, is asked three times: by `fdarx evaluate`, and by its asking path alone in that order and at random,
so that these two differ in nothing else. Tokens are those of the replies' usage, held against the engines' own
counters. Exits 1 where our order computes more than 0.12 of the prompt tokens it sends (two replicas: 0.15), takes more
than a quarter of the time of random order, or usage is not what the engines count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.prefix_questions import by_label, chosen, made_build
from fdarx_core.evaluation.settings import FULL_LABEL
from fdarx_core.llm import Asker, HttpEndpoint, ModelConfig
from fdarx_core.llm.model_config import count_messages, token_counter
from fdarx_core.records import Request
from serving.served_model import load_served
from tests.conftest import EXAMPLES, REPOSITORY
from tests.engine.environment import installed
from tests.engine.serve_models import Up, described, serving
from tests.engine.server import BLOCK, CONTEXT, MODEL, built, running

QUESTIONS = 10
CACHED_SHARE = 1 / 6
CONCURRENT = 8
HIDDEN, LAYERS = 512, 8
MOST_COMPUTED = {1: 0.12, 2: 0.15}
LEAST_SPEEDUP = 4.0
_REPLY_TOKENS = 4
_ASK = {"sampling": {"temperature": 0.0}, "max_tokens": _REPLY_TOKENS}


@dataclass(frozen=True)
class Asked:
    """What one way of asking came to."""

    name: str
    sent: int
    cached: int
    seconds: float

    @property
    def computed(self) -> float:
        """Share of the prompt tokens that no cache held."""
        return 1 - self.cached / self.sent

    def __str__(self) -> str:
        return f"{self.name:34s} computed {self.computed:6.3f} of {self.sent:,} prompt tokens, {self.seconds:7.1f} s"


@dataclass(frozen=True)
class Task:
    """What is asked of every system."""

    benchmark: Path
    label_chars: int
    python: Path
    weights: Path
    cached_tokens: int
    seed: int

    def requests(self, model: ModelConfig) -> list[list[Request]]:
        return by_label(self.benchmark, model, self.label_chars)


async def answered(name: str, model: ModelConfig, batches: Sequence[Sequence[Request]]) -> Asked:
    """Each batch at once, when the one before it is answered."""
    asker = Asker({model.name: HttpEndpoint(model)})
    start = time.perf_counter()
    try:
        replies = [response for batch in batches for response in await asker.ask(batch)]
    finally:
        await asker.close()
    seconds = time.perf_counter() - start
    if failed := [response for response in replies if response.reason]:
        raise RuntimeError(f"{len(failed)} requests failed: {failed[0].reason}: {failed[0].text}")
    return Asked(name, sum(one.prompt_tokens for one in replies), sum(one.cached_tokens for one in replies), seconds)


def in_order(name: str, model: ModelConfig, task: Task, seed: int | None = None) -> Asked:
    """All at once, in the order of a sweep, or in one that the seed gives."""
    requests = [request for label in task.requests(model) for request in label]
    if seed is not None:
        random.Random(seed).shuffle(requests)
    return asyncio.run(answered(name, model, [requests]))


def swept(name: str, model: ModelConfig, task: Task, folder: Path) -> Asked:
    """`fdarx evaluate`, as a user types it."""
    models, out = folder / "models.yaml", folder / "run"
    models.write_text(yaml.safe_dump([model.model_dump(mode="json", exclude_unset=True)]))
    what = ["--benchmark", task.benchmark, "--models", models, "--settings", FULL_LABEL]
    how = ["--label-chars", task.label_chars, "--resamples", 100, "--cpus", 2, "--out", out]
    command = [sys.executable, "-m", "jobs.evaluate", *map(str, (*what, *how))]
    subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
    info = json.loads((out / "run.json").read_text())
    [row] = [one for one in info["asked"] if one["endpoint"] == model.name]
    if row["failed"]:
        raise RuntimeError(f"{row['failed']} requests failed; see {out}")
    return Asked(name, row["prompt_tokens"], row["cached_tokens"], info["timings"]["sit"])


def reference(task: Task, folder: Path) -> Asked:
    """The bare engine, label by label."""
    with running(task.python, task.weights, folder / "engine.log", task.cached_tokens) as address:
        model = ModelConfig(
            name="bare",
            model=MODEL,
            base_url=f"{address}/v1",
            max_in_flight=CONCURRENT,
            **_ASK,
        )
        return asyncio.run(answered("bare engine, label by label", model, task.requests(model)))


@contextmanager
def served(task: Task, folder: Path, replicas: int) -> Iterator[tuple[ModelConfig, Up]]:
    """So many replicas behind Ray Serve, each with a cache for a sixth of the labels."""
    engine = {"dtype": "float32", "enforce_eager": True, "block_size": BLOCK}
    engine["num_gpu_blocks_override"] = task.cached_tokens // BLOCK
    fields = {"engine": engine, "cache_gib": 1, "replicas": replicas, "concurrent": CONCURRENT, "ask": _ASK}
    file = described(folder / "small.yaml", task.weights, **fields)
    with serving(task.python, [file], folder) as up:
        yield load_served(file).client_config(up.address), up


def behind_serve(task: Task, folder: Path, replicas: int) -> bool:
    """Prints what each way came to; whether our order keeps to its bounds and usage is what the engines count."""
    folder.mkdir()
    noun = f"Serve, {replicas} replica{'s' * (replicas > 1)}"
    with served(task, folder, replicas) as (model, up):
        ways = [in_order(f"{noun}, our order", model, task)]
        print(ways[-1], flush=True)
        ways.append(in_order(f"{noun}, at random", model, task, task.seed))
        print(ways[-1], flush=True)
        ways.append(swept(f"{noun}, fdarx evaluate", model, task, folder))
        print(ways[-1], flush=True)
        sent, cached = sum(one.sent for one in ways), sum(one.cached for one in ways)
        queried = up.await_count("prefix_cache_queries", model.model, sent)
        hits = up.counted("prefix_cache_hits", model.model)
    ordered, at_random, sweep = ways
    speedup, computed = at_random.seconds / ordered.seconds, max(ordered.computed, sweep.computed)
    print(f"{noun}: ratio computed / sent: {computed:.3f} (at most {MOST_COMPUTED[replicas]})")
    print(f"{noun}: ratio at random / our order, seconds: {speedup:.1f} (at least {LEAST_SPEEDUP:g})")
    print(f"{noun}: engines counted {queried:,.0f}, cached {hits:,.0f}; usage {sent:,} and {cached:,}", flush=True)
    return computed <= MOST_COMPUTED[replicas] and speedup >= LEAST_SPEEDUP and (queried, hits) == (sent, cached)


def prepared(options: argparse.Namespace, folder: Path) -> Task:
    """The questions, the model, and how large its cache is to be."""
    build = Path(options.run) if options.run else made_build(folder, options.labels)
    benchmark = chosen(build, folder / "benchmark", options.labels, QUESTIONS)
    python = installed()
    texts = [*sorted(EXAMPLES.glob("*.xml")), *sorted((REPOSITORY / "prompts").glob("*.yaml"))]
    weights = built(python, folder / "tiny", texts, HIDDEN, LAYERS)
    counting = ModelConfig(name="counting", model=MODEL, base_url="http://localhost", tokenizer=str(weights))
    counter, _ = token_counter(counting)
    labels = by_label(benchmark, counting, options.label_chars)
    tokens = sum(count_messages(label[0].messages, counter) for label in labels)
    print(f"{len(labels)} labels of {tokens / len(labels):,.0f} tokens each, {QUESTIONS} questions a label; ", end="")
    cached = max(CONTEXT + 2 * BLOCK, int(tokens * CACHED_SHARE))  # the engine keeps a block for itself
    print(f"a cache for {cached:,} tokens a replica, {CONCURRENT} requests in flight for each", flush=True)
    return Task(benchmark, options.label_chars, python, weights, cached, options.seed)


def main() -> int:
    """Print the ratios; exit 1 where one is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", help="a finished build; without it one is made of the real labels")
    parser.add_argument("--labels", type=int, default=24)
    parser.add_argument("--label-chars", type=int, default=16_000)
    parser.add_argument("--replicas", type=int, nargs="*", default=[1, 2], choices=sorted(MOST_COMPUTED))
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(HOME=name, RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
        task = prepared(options, folder)
        print(reference(task, folder), flush=True)
        held = [behind_serve(task, folder / f"serve{replicas}", replicas) for replicas in options.replicas]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
