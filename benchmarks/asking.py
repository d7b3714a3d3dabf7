"""Many requests to a server, on one core: FDARx's whole path beside raw aiohttp.

    python -m benchmarks.asking [--waves 60]

A server in its own process (tests/llm/loopback_server.py) answers after a fixed latency. The ideal is the time of 128
slots that are always in use. Three measurements: the window from first request to last reply over the ideal, at 500 ms;
the requests a second that one core can send, by the CPU time of the client's process alone, without latency; and the
window when a tenth of the requests gets 429 and must wait a second. The whole path renders prompts, computes keys,
applies limits, counts costs, parses replies and stores them, with spans switched off and the garbage collector set as
in the process of a run that asks; raw aiohttp sends prepared bytes. Exits 1 where the whole path takes more
than 1.05 times the ideal window, sends fewer than 3,000 requests a second of CPU time, loses a row to 429s, or then
takes more than 1.3 times the window without them plus a second.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import urllib.request
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import aiohttp
import orjson

from benchmarks import cpu_timed, run, server_process
from fdarx_core.generation.tasks import GENERATE_FACTUAL
from fdarx_core.llm import Asker, HttpEndpoint, ModelConfig, Prices, ResponseStore
from fdarx_core.pipeline.asking import collect_garbage_rarely
from fdarx_core.records import Request
from fdarx_core.storage import Location

IN_FLIGHT = 128
LEAST_OF_A_CORE = 3000
LABEL, OPEN_LABELS = 8, 4 * 128
"""Requests of a label, and labels in progress: requests that must wait do not leave slots unused."""

_SENTENCE = "In patients with moderate renal impairment the recommended dose is {} mg once daily, taken with food. "
Client = Callable[[str, int], Coroutine[Any, Any, int]]


def measure(
    name: str, client: Client, requests: int, latency: float, *flags: str, ideal_s: float = 0.0
) -> tuple[int, float, float]:
    """Send one client's requests, and print how fast it was.

    Returns the number of replies, the seconds from the first request to the last reply as the server measures them, and
    the CPU seconds of the client.
    """
    ready_bodies(requests)
    with server(latency, *flags) as url:
        answered, cpu_s = cpu_timed(lambda: asyncio.run(client(f"{url}/v1", requests)))
        with urllib.request.urlopen(f"{url}/seen") as reply:
            window_s = float(json.load(reply)["window_s"])
    over = f"{window_s / ideal_s:6.3f} of ideal, " if ideal_s else f"one core alone {requests / cpu_s:6,.0f}/s, "
    rate = f"{window_s:7.2f} s, {requests / window_s:6.0f} requests/s"
    print(f"  {name:12s} {over}{rate}, {cpu_s / requests * 1000:.2f} CPU-s per 1,000")
    return answered, window_s, cpu_s


@contextmanager
def server(latency: float, *flags: str) -> Iterator[str]:
    """Start a server in its own process, and give its address."""
    with server_process("tests.llm.loopback_server", "--latency", str(latency), *flags) as port:
        yield f"http://127.0.0.1:{port}"


def request(number: int, sampling: Any) -> Request:
    """Return a request of a build, about 3,000 words with instructions and examples."""
    slots = {
        "drug": f"Quorvelin {number}",
        "ingredients": "quorvelin sodium",
        "forms": "tablet, oral",
        "outline": "USE IN SPECIFIC POPULATIONS > Renal Impairment (here)",
        "passages": [
            {
                "section": "USE IN SPECIFIC POPULATIONS > Renal Impairment",
                "table": "",
                "text": _SENTENCE.format(number) * 15,
            }
        ],
        "about": "",
        "absent": ["hepatic impairment"],
        "twin": "absent",
        "k": 4,
        "prefer": "",
        "written": [],
    }
    return GENERATE_FACTUAL.request(slots, endpoint="server", sampling=sampling)


async def whole_path(url: str, requests: int) -> int:
    """Send the requests with FDARx: rendering, keys, limits and store, label by label as in a build."""
    limits = {"max_in_flight": IN_FLIGHT, "requests_per_minute": 1e7, "tokens_per_minute": 1e11}
    prices = Prices(input=1.0, cached_input=0.1, output=4.0)
    endpoint = HttpEndpoint(
        ModelConfig(name="server", model="any", base_url=url, prices=prices, first_alone=False, **limits)
    )
    labels = iter(range(0, requests, LABEL))
    answered = 0

    async def ask_labels(asker: Asker) -> None:
        nonlocal answered
        for first in labels:
            asked = [request(number, endpoint.sampling) for number in range(first, min(first + LABEL, requests))]
            for response in await asker.ask(asked):
                GENERATE_FACTUAL.parse(response)
                answered += 1

    with tempfile.TemporaryDirectory() as folder:
        asker = Asker({"server": endpoint}, ResponseStore(Location(folder)), max_cost=1e6)
        await asyncio.gather(*(ask_labels(asker) for _ in range(OPEN_LABELS)))
        await asker.close()
        kept = len(ResponseStore(Location(folder)).index())
    assert kept == answered, f"{answered} answered, {kept} stored"
    return answered


async def raw_aiohttp(url: str, requests: int) -> int:
    """Send prepared bytes through one session, `IN_FLIGHT` at a time, and parse the replies as JSON: the floor."""
    headers, bodies = {"Content-Type": "application/json"}, iter(ready_bodies(requests))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:

        async def worker() -> int:
            answered = 0
            for body in bodies:
                async with session.post(f"{url}/chat/completions", data=body, headers=headers) as reply:
                    answered += bool(orjson.loads(await reply.read())["choices"])
            return answered

        return sum(await asyncio.gather(*(worker() for _ in range(IN_FLIGHT))))


@cache
def ready_bodies(requests: int) -> Sequence[bytes]:
    """Render the requests that the whole path renders itself."""
    made = (request(number, {}) for number in range(requests))
    return [
        orjson.dumps({"model": "any", "max_tokens": 1024, "messages": made_request.messages}) for made_request in made
    ]


def window(waves: int) -> bool:
    """Return whether the whole path takes at most 1.05 times the ideal window."""
    requests, ideal = waves * IN_FLIGHT, waves * 0.5
    print(f"{requests:,} requests, {IN_FLIGHT} in flight, 500 ms: ideal {ideal:.1f} s")
    answered, own_s, _ = measure("whole path", whole_path, requests, 0.5, ideal_s=ideal)
    _, raw_s, _ = measure("raw aiohttp", raw_aiohttp, requests, 0.5, ideal_s=ideal)
    print(f"ratio whole path / ideal: {own_s / ideal:.3f} (at most 1.05)")
    print(f"ratio whole path / raw aiohttp: {own_s / raw_s:.3f}")
    return own_s / ideal <= 1.05 and answered == requests


def throughput(requests: int = 5000, rounds: int = 3) -> bool:
    """Return whether one core can send 3,000 requests a second, by the median of rounds that take turns."""
    print(f"{requests:,} requests, {IN_FLIGHT} in flight, no latency, CPU time of the client alone")
    clients: list[tuple[str, Client]] = [("whole path", whole_path), ("raw aiohttp", raw_aiohttp)]
    measured = [[measure(name, client, requests, 0.0)[2] for name, client in clients] for _ in range(rounds)]
    own_cpu, raw_cpu = (statistics.median(seconds[which] for seconds in measured) for which in (0, 1))
    print(f"requests a second of one core: {requests / own_cpu:,.0f} (at least {LEAST_OF_A_CORE:,})")
    print(f"ratio whole path / raw aiohttp, CPU: {own_cpu / raw_cpu:.2f}")
    return requests / own_cpu >= LEAST_OF_A_CORE


def refused(requests: int = 2000) -> bool:
    """Return whether all rows are answered, in time, when a tenth of the requests must wait a second."""
    print(f"{requests:,} requests, {IN_FLIGHT} in flight, 100 ms; then with 429 and Retry-After 1 for a tenth of them")
    ideal = requests / IN_FLIGHT * 0.1
    _, without, _ = measure("faultless", whole_path, requests, 0.1, ideal_s=ideal)
    answered, delayed, _ = measure("delayed", whole_path, requests, 0.1, "--refuse-tenth", ideal_s=ideal)
    allowed = 1.3 * without + 1
    print(f"rows lost: {requests - answered}; window {delayed:.2f} s (at most {allowed:.2f} s)")
    print(f"ratio delayed / allowed: {delayed / allowed:.2f}")
    return answered == requests and delayed <= allowed


def main(*, waves: int = 60) -> int:
    """Print the ratios."""
    collect_garbage_rarely()
    kept = [window(waves), throughput(), refused()]
    return int(not all(kept))


if __name__ == "__main__":
    run(main)
