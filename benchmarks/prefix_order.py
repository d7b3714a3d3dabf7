"""The prompt tokens and the time that the order of requests saves: by label as in an evaluation, and at random.

    python -m benchmarks.prefix_order [--run BUILD] [--labels 24] [--replicas 1 2]

The labels and questions are those of a real build (without --run, one is made from $FDARX_DATA), ten questions a label,
whose text is cut at 16,000 characters as in FDARxBench's code. The engine is vLLM for CPU with a small model of random
weights, for which reading prompts is most of the work, as it is for real models. Its cache has room for a sixth of the
labels. The reference is a bare engine that is asked label by label. Ray Serve, with one replica and with two behind the
router by prefix, is asked by `fdarx evaluate`, and by its client alone at random. Tokens are those of the usage in
replies, compared with the counters of the engines. Exits 1 where `fdarx evaluate` computes more than 0.12 of the prompt
tokens (two replicas: 0.15), takes more than a quarter of the time of random order, or usage and counters differ.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import yaml

from benchmarks import PRESCRIPTION_LABELS, json_lines, run
from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.settings import FULL_LABEL, TokenBudget
from fdarx_core.llm import Asker, HttpEndpoint, ModelConfig
from fdarx_core.llm.model_config import count_messages, token_counter
from fdarx_core.pipeline.evaluation_steps import EvalSample, answer_questions
from fdarx_core.pipeline.steps import Address
from fdarx_core.records import Request
from fdarx_core.storage.benchmark_reader import read_benchmark
from jobs import cli
from serving.served_model import load_served
from tests.conftest import EXAMPLES, REPOSITORY
from tests.engine.environment import installed
from tests.engine.serve_models import described, serving
from tests.engine.server import BLOCK, CONTEXT, MODEL, built, running

QUESTIONS = 10
CACHED_SHARE = 1 / 6
CONCURRENT = 8
HIDDEN, LAYERS = 512, 8
MOST_COMPUTED = {1: 0.12, 2: 0.15}
LEAST_SPEEDUP = 4.0
_REPLY_TOKENS = 4
_ASK = {"sampling": {"temperature": 0.0}, "max_tokens": _REPLY_TOKENS}


def built_run(folder: Path, *options: str) -> Path:
    """Build questions on the real labels with these options; return the run. Raises FileNotFoundError without them."""
    if not PRESCRIPTION_LABELS.is_file():
        raise FileNotFoundError(f"no real labels at {PRESCRIPTION_LABELS}; set FDARX_DATA, or give a build by --run")
    run = folder / "build"
    cli.main(["build", "--labels", str(PRESCRIPTION_LABELS), "--out", str(run), *options])
    return run


def chosen(build: Path, folder: Path, labels: int, questions: int) -> Path:
    """Write a benchmark in the published format: the first labels of the build with enough questions."""
    asked = defaultdict[str, list[Mapping[str, Any]]](list)
    for row in json_lines(build / "benchmark" / "qa.jsonl"):
        asked[row["set_id"]].append(row)
    enough = (row for row in json_lines(build / "benchmark" / "labels.jsonl") if len(asked[row["set_id"]]) >= questions)
    folder.mkdir()
    with (folder / "labels.jsonl").open("w") as texts, (folder / "qa.jsonl").open("w") as rows:
        for label in islice(enough, labels):
            texts.write(f"{json.dumps(label)}\n")
            own = asked[label["set_id"]]
            rows.writelines(f"{json.dumps(row)}\n" for row in own[:: len(own) // questions][:questions])
    return folder


def by_label(benchmark: Path, model: ModelConfig, label_chars: int) -> list[list[Request]]:
    """Return what a sweep asks the model, label by label."""
    step = answer_questions(Address(model.name, model.request_parameters), TokenBudget.of(model, label_chars), top_k=0)
    cell = CellKey(model.name, FULL_LABEL, "")
    labels = read_benchmark(str(benchmark)).items()
    return [step.requests(EvalSample(one, {}, {}, {}, {cell: one.questions})) for one in labels]


@dataclass(frozen=True)
class Measurement:
    """The prompt tokens that were sent and found in a cache, and the seconds, of all requests in one order."""

    name: str
    sent: int
    cached: int
    seconds: float

    @property
    def computed(self) -> float:
        """The share of the prompt tokens that were in no cache."""
        return 1 - self.cached / self.sent

    def __str__(self) -> str:
        return f"{self.name:34s} computed {self.computed:6.3f} of {self.sent:,} prompt tokens, {self.seconds:7.1f} s"


@dataclass(frozen=True)
class Workload:
    """The questions, the model, and the size of its cache."""

    benchmark: Path
    label_chars: int
    python: Path
    weights: Path
    cached_tokens: int

    def requests(self, model: ModelConfig) -> list[Request]:
        return [request for label in by_label(self.benchmark, model, self.label_chars) for request in label]


async def asked(name: str, model: ModelConfig, requests: Sequence[Request]) -> Measurement:
    """Send all requests at once, in this order."""
    asker = Asker({model.name: HttpEndpoint(model)})
    start = time.perf_counter()
    try:
        replies = await asker.ask(requests)
    finally:
        await asker.close()
    seconds = time.perf_counter() - start
    if failed := [response for response in replies if response.reason]:
        raise RuntimeError(f"{len(failed)} requests failed: {failed[0].reason}: {failed[0].text}")
    sent, cached = (sum(getattr(one, kind) for one in replies) for kind in ("prompt_tokens", "cached_tokens"))
    return Measurement(name, sent, cached, seconds)


def swept(name: str, model: ModelConfig, workload: Workload, folder: Path) -> Measurement:
    """Run `fdarx evaluate`."""
    models, out = folder / "models.yaml", folder / "run"
    models.write_text(yaml.safe_dump([model.model_dump(mode="json", exclude_unset=True)]))
    what = ["--benchmark", workload.benchmark, "--models", models, "--settings", FULL_LABEL]
    how = ["--label-chars", workload.label_chars, "--resamples", 100, "--cpus", 2, "--out", out]
    command = [sys.executable, "-m", "jobs.evaluate", *map(str, (*what, *how))]
    subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
    info = json.loads((out / "run.json").read_text())
    [row] = [one for one in info["asked"] if one["endpoint"] == model.name]
    if row["failed"]:
        raise RuntimeError(f"{row['failed']} requests failed; see {out}")
    return Measurement(name, row["prompt_tokens"], row["cached_tokens"], info["timings"]["answer"])


def reference(workload: Workload, folder: Path) -> Measurement:
    """Ask a bare engine."""
    with running(workload.python, workload.weights, folder / "engine.log", workload.cached_tokens) as address:
        model = ModelConfig(name="bare", model=MODEL, base_url=f"{address}/v1", max_in_flight=CONCURRENT, **_ASK)
        return asyncio.run(asked("bare engine, label by label", model, workload.requests(model)))


def behind_serve(workload: Workload, folder: Path, replicas: int, seed: int) -> bool:
    """Print the measurements; return whether our order keeps its bounds and usage equals the engines' counters."""
    folder.mkdir()
    noun = f"Serve, {replicas} replica{'s' * (replicas > 1)}"
    engine = {"dtype": "float32", "enforce_eager": True, "block_size": BLOCK}
    engine["num_gpu_blocks_override"] = workload.cached_tokens // BLOCK
    fields = {"engine": engine, "cache_gib": 1, "replicas": replicas, "concurrent": CONCURRENT, "ask": _ASK}
    file = described(folder / "small.yaml", workload.weights, **fields)
    with serving(workload.python, [file], folder) as up:
        model = load_served(file).client_config(up.address)
        ordered = swept(f"{noun}, fdarx evaluate", model, workload, folder)
        print(ordered, flush=True)
        shuffled = workload.requests(model)
        random.Random(seed).shuffle(shuffled)
        at_random = asyncio.run(asked(f"{noun}, at random", model, shuffled))
        print(at_random, flush=True)
        sent, cached = ordered.sent + at_random.sent, ordered.cached + at_random.cached
        queried = up.await_count("prefix_cache_queries", model.model, sent)
        hits = up.counted("prefix_cache_hits", model.model)
    speedup, computed = at_random.seconds / ordered.seconds, ordered.computed
    print(f"{noun}: ratio computed / sent: {computed:.3f} (at most {MOST_COMPUTED[replicas]})")
    print(f"{noun}: ratio at random / our order, seconds: {speedup:.1f} (at least {LEAST_SPEEDUP:g})")
    print(f"{noun}: engines counted {queried:,.0f}, cached {hits:,.0f}; usage {sent:,} and {cached:,}", flush=True)
    return computed <= MOST_COMPUTED[replicas] and speedup >= LEAST_SPEEDUP and (queried, hits) == (sent, cached)


def prepare(folder: Path, run: str | None, labels: int, label_chars: int) -> Workload:
    """Make the questions and the model, and compute the size of its cache."""
    # Not all labels have enough questions, so half as many more are built.
    build = Path(run or built_run(folder, "--sample", str(labels * 3 // 2), "--cpus", "2"))
    benchmark = chosen(build, folder / "benchmark", labels, QUESTIONS)
    python = installed()
    texts = [*sorted(EXAMPLES.glob("*.xml")), *sorted((REPOSITORY / "prompts").glob("*.yaml"))]
    weights = built(python, folder / "tiny", texts, HIDDEN, LAYERS)
    counting = ModelConfig(name="counting", model=MODEL, base_url="http://localhost", tokenizer=str(weights))
    counter, _ = token_counter(counting)
    first = [label[0] for label in by_label(benchmark, counting, label_chars)]
    tokens = sum(count_messages(one.messages, counter) for one in first)
    print(f"{len(first)} labels of {tokens / len(first):,.0f} tokens each, {QUESTIONS} questions a label; ", end="")
    cached = max(CONTEXT + 2 * BLOCK, int(tokens * CACHED_SHARE))  # the engine keeps a block for itself
    print(f"a cache for {cached:,} tokens a replica, {CONCURRENT} requests in flight for each", flush=True)
    return Workload(benchmark, label_chars, python, weights, cached)


def main(
    *,
    run: str | None = None,
    labels: int = 24,
    label_chars: int = 16_000,
    replicas: tuple[Literal[1, 2], ...] = (1, 2),
    seed: int = 5,
) -> int:
    """Print the ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(HOME=name, RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
        workload = prepare(folder, run, labels, label_chars)
        print(reference(workload, folder), flush=True)
        kept = [behind_serve(workload, folder / f"serve{count}", count, seed) for count in replicas]
    return int(not all(kept))


if __name__ == "__main__":
    run(main)
