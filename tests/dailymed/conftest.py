"""What these tests share: the example labels, a bulk release of them, a server, and a client that waits for nothing."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from fdarx_core.dailymed.client import DailyMedClient
from fdarx_core.dailymed.fetching import Fetcher, FetchRequest, FetchResult
from fdarx_core.storage import Location
from tests.conftest import EXAMPLES
from tests.dailymed.dailymed_server import DailyMedServer

Fetch = Callable[..., FetchResult]


@cache
def examples() -> list[bytes]:
    return [file.read_bytes() for file in sorted(EXAMPLES.glob("*.xml"))]


@cache
def release() -> bytes:
    """A bulk release of the examples: a zip of zips."""
    return zipped({f"prescription/{number}.zip": zipped({"a.xml": data}) for number, data in enumerate(examples())})


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[DailyMedServer]:
    """With the example labels, and one bulk release of them in one part."""
    monkeypatch.setattr("fdarx_core.dailymed.client._FIRST_WAIT_S", 0.01)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with DailyMedServer(examples(), {"dm_spl_release_human_rx_part1.zip": release()}) as running:
        yield running


@pytest.fixture
def fetch(server: DailyMedServer, tmp_path: Path) -> Fetch:
    """Fetches a wish into tmp_path / "out", or another place."""

    def run(
        wish: FetchRequest, place: Location | None = None, timeout_s: float = 5, connections: int = 2
    ) -> FetchResult:
        async def all_of_it() -> FetchResult:
            async with DailyMedClient(server.url, "fdarx tests", 1000, connections, timeout_s) as client:
                out = place or Location(tmp_path / "out")
                fetcher = Fetcher(client, out, tmp_path / "scratch", lambda *_: None)
                await fetcher.run(wish)
            return fetcher.result

        return asyncio.run(all_of_it())

    return run
