"""The service under load, compared with its model alone, and with the method of QA-RAG's published code.

    python -m benchmarks.service [--index INDEX] [--seconds 8]

Without --index, an index of the real guidelines of $FDARX_DATA, or of the examples, is made first. `fdarx serve` runs
the service with BM25 and the strategy `question`: once with `baseline`, once with a model on a server that replies
after 300 ms (tests/llm/loopback_server.py). Each client sends its next question when it has received a reply; all
questions differ. Clients and servers share this machine's cores, and the CPU time of the clients is printed. The
model's own latency is measured with the same clients, which send it prompts of the same size.
benchmarks/service_seed.py answers the same questions with the same model, but reads the index from disk for every
question. Exits 1 if a status is neither 200 nor 503, or if at 16 clients the service adds more than 25 ms (p50) to the
model's own latency.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import aiohttp
import orjson

from benchmarks import DATA, run, server_process
from benchmarks.asking import server
from fdarx_core.retrieval.index import IndexReader
from jobs import cli
from tests.serving.service_process import REPOSITORY, running

CLIENTS, FEW = (1, 16, 64, 256), (1, 16)
LATENCY_S = 0.3
MOST_ADDED_MS = 25.0
OK, OVERLOADED = 200, 503
_SPREAD_S = 1.0
_CONTEXTS = 6
_SEARCH = ("--strategy", "question", "--retriever", "bm25", "--verifier", "exact")
"""The work of the gate is measured; a model that verifies would add its own latency to each answer."""
_ECHO_CHARACTERS = 50_000
"""Approximate size of a reply with six guideline chunks."""

_ANSWER = (
    "FDA recommends that applicants describe the studies and their results in the submission [1][2]. "
    "Manufacturers should keep the records of each batch and make them available for inspection [1]. "
    "The guidance does not establish legally enforceable responsibilities [3]."
)
"""Statements that most guidelines have words of, so that the gate looks for their places and verifies them."""


@dataclass
class Level:
    """Measurements of a number of clients. `latencies`: of answers, in seconds; `cpu_s`: of the clients."""

    clients: int
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    window_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def requests(self) -> int:
        return self.statuses.total()

    @property
    def rate(self) -> float:
        """The number of answers per second."""
        return len(self.latencies) / self.window_s

    @property
    def sound(self) -> bool:
        """Whether there were answers, and all other replies had the status 503."""
        return bool(self.latencies) and set(self.statuses) <= {OK, OVERLOADED}

    def ms(self, share: float) -> float:
        """Return the latency in ms that this share of the answers did not exceed; infinite without answers."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000 if ordered else float("inf")

    def line(self) -> str:
        """Return a line to print."""
        times = "   ".join(f"p{share:g} {self.ms(share / 100):7.1f} ms" for share in (50, 95, 99))
        shares = ", ".join(f"{status}: {count / self.requests:.1%}" for status, count in sorted(self.statuses.items()))
        cpu = self.cpu_s / self.requests * 1000
        return (
            f"{self.clients:4d} clients {self.rate:7.1f}/s   {times}   {shares} of {self.requests}; client {cpu:.2f} ms"
        )


async def load(url: str, bodies: Iterator[bytes], clients: int, seconds: float) -> Level:
    """Send requests: each client sends its next body when it has read the last reply, or after its Retry-After.

    Clients begin at random times within a second; otherwise they would stay synchronized by a model with a constant
    latency. A broken connection counts as status 0.
    """
    starts = random.Random(clients)
    level, until = Level(clients), time.monotonic() + seconds

    async def client(session: aiohttp.ClientSession) -> None:
        await asyncio.sleep(starts.uniform(0, _SPREAD_S))
        while time.monotonic() < until:
            await asyncio.sleep(await _ask(session, url, next(bodies), level))

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), headers={"Content-Type": "application/json"}
    ) as session:
        start, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(client(session) for _ in range(clients)))
        level.window_s, level.cpu_s = time.perf_counter() - start, time.process_time() - cpu
    return level


async def _ask(session: aiohttp.ClientSession, url: str, body: bytes, level: Level) -> float:
    """Send a request; return the seconds to wait before the next one."""
    start = time.perf_counter()
    try:
        async with session.post(url, data=body) as reply:
            await reply.read()
    except aiohttp.ClientError:
        level.statuses[0] += 1
        return 1.0
    level.statuses[reply.status] += 1
    if reply.status == OK:
        level.latencies.append(time.perf_counter() - start)
    return float(reply.headers.get("Retry-After", 0))


def levels(url: str, bodies: Iterator[bytes], clients: tuple[int, ...], seconds: float) -> dict[int, Level]:
    """Measure and print each number of clients, after a short warm-up that is not counted."""
    asyncio.run(load(url, bodies, max(4, clients[0]), 2.0))
    done = {}
    for count in clients:
        done[count] = asyncio.run(load(url, bodies, count, seconds))
        print(" ", done[count].line(), flush=True)
    return done


def questions() -> list[str]:
    """Return the real questions, or those of the examples, in a random order that a seed fixes."""
    real = DATA / "guidelines" / "faq.jsonl"
    lines = (real if real.is_file() else REPOSITORY / "examples" / "questions.jsonl").read_bytes().splitlines()
    asked = [str(orjson.loads(line)["question"]) for line in lines]
    random.Random(5).shuffle(asked)
    return asked


def made_index(folder: str) -> str:
    """Make an index of the real guidelines, or of the examples, for BM25 only; return its folder."""
    real = DATA / "guidelines" / "chunks.jsonl"
    documents = real if real.is_file() else REPOSITORY / "examples" / "guidelines"
    cli.main(["index", "--documents", str(documents), "--words-only", "--out", f"{folder}/guidelines"])
    return f"{folder}/guidelines"


def bodies(asked: list[str]) -> Iterator[bytes]:
    """Return the bodies of the requests to the service and to the published method."""
    return cycle([orjson.dumps({"question": question}) for question in asked])


def prompts(asked: list[str], index: IndexReader) -> Iterator[bytes]:
    """Return the bodies of requests to the model alone: a question and the chunks that BM25 finds for it."""
    found = index.search(asked[:200], _CONTEXTS, retriever="bm25")
    texts = [[chunk.text for chunk in index.chunks([position for position, _ in best])] for best in found]
    content = ["\n\n".join([question, *contexts]) for question, contexts in zip(asked, texts, strict=False)]
    return cycle(
        [orjson.dumps({"model": "any", "messages": [{"role": "user", "content": prompt}]}) for prompt in content]
    )


@contextmanager
def published_method(folder: Path, index: IndexReader, llm: str) -> Iterator[str]:
    """Run the published method over the same chunks; yield its address."""
    from benchmarks import service_seed

    service_seed.write(
        folder, [{"title": chunk.title, "text": chunk.text} for chunk in index.chunks(range(len(index)))]
    )
    with server_process("benchmarks.service_seed", "--folder", str(folder), "--llm", llm) as line:
        port, _, encoder = line.partition(" ")
        print(f"published method: index read for every query, {encoder} loaded once, {LATENCY_S:g} s model")
        yield f"http://127.0.0.1:{port}"


def with_model(place: str, asked: list[str], folder: Path, seconds: float) -> bool:
    """Measure the model alone, the service and the published method; return whether the service meets its bounds."""
    index = IndexReader.open(place)
    with server(LATENCY_S, "--text", _ANSWER) as llm:
        print(f"the model itself, {LATENCY_S:g} s")
        own = levels(f"{llm}/v1/chat/completions", prompts(asked, index), FEW, seconds / 2)
        models = folder / "models.yaml"
        stub = {"name": "stub", "model": "any", "base_url": f"{llm}/v1", "max_in_flight": 256}
        models.write_bytes(orjson.dumps([stub]))
        with running(folder, "--index", place, *_SEARCH, "--models", str(models), "--answerer", "stub") as service:
            print(f"service, {LATENCY_S:g} s model")
            ours = levels(f"{service.url}/v1/answers", bodies(asked), CLIENTS, seconds)
        with published_method(folder, index, f"{llm}/v1") as seed:
            theirs = levels(seed, bodies(asked), FEW, seconds)
    added = {clients: ours[clients].ms(0.5) - own[clients].ms(0.5) for clients in FEW}
    for clients in FEW:
        _compare(ours[clients], theirs[clients], own[clients])
    print(f"added to the model's own latency at 16 clients, p50: {added[16]:.1f} ms (at most {MOST_ADDED_MS:g})")
    return all(level.sound for level in ours.values()) and added[16] <= MOST_ADDED_MS


def _compare(ours: Level, theirs: Level, own: Level) -> None:
    ratio, rate = theirs.ms(0.5) / ours.ms(0.5), ours.rate / theirs.rate
    added = [level.ms(0.5) - own.ms(0.5) for level in (theirs, ours)]
    print(
        f"{ours.clients} clients: latency of published method ÷ service, p50: {ratio:.2f}; answers a second, service ÷ "
        f"published: {rate:.2f}; added to the model's {own.ms(0.5):.0f} ms: {added[0]:.1f} and {added[1]:.1f} ms"
    )


def client_cost(asked: list[str], seconds: float) -> None:
    """Measure the clients against an endpoint that does nothing."""
    with server(0.0, "--text", "x" * _ECHO_CHARACTERS) as bare:
        print(f"clients against a bare endpoint, replies of {_ECHO_CHARACTERS:,} characters at once")
        bodies_ = (orjson.dumps({"messages": [{"role": "user", "content": question}]}) for question in cycle(asked))
        levels(f"{bare}/v1/chat/completions", bodies_, (16,), seconds)


def main(*, index: str | None = None, seconds: float = 8.0) -> int:
    """Print levels and ratios; exit 1 where a bound is missed."""
    asked = questions()
    print(
        f"{os.cpu_count()} cores, {len(asked)} questions; per number of clients: answers a second, latencies, statuses,"
    )
    print("  and the CPU time of the clients per request")
    with tempfile.TemporaryDirectory() as folder:
        place = index or made_index(folder)
        client_cost(asked, seconds / 2)
        with running(Path(folder), "--index", place, *_SEARCH) as service:
            print("service, baseline")
            found = levels(f"{service.url}/v1/answers", bodies(asked), CLIENTS, seconds)
        sound = all(level.sound for level in found.values())
        return int(not (with_model(place, asked, Path(folder), seconds) and sound))


if __name__ == "__main__":
    run(main)
