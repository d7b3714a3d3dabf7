"""Load from concurrent HTTP clients, each of which sends one request after another, and its measurements."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import aiohttp

OK, OVERLOADED = 200, 503
_SPREAD_S = 1.0
_JSON = {"Content-Type": "application/json"}


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
        """Answers a second."""
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

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=_JSON) as session:
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
