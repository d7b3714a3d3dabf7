"""Uploaded files that are slow or broken: they end at their limits, and the next upload does not wait for them."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from fdarx_core.documents.isolated import ParsingLimits
from serving.retriever import CorpusStore
from tests.serving.local_service import LocalBackend, Reply, Service, eventually, service
from tests.serving.slow_files import parsers_of, slow_pdf

pytestmark = pytest.mark.slow

ENDLESS = slow_pdf(50_000, pages=400)
"""It takes hours to read."""
BODY = {"Content-Type": "application/octet-stream"}


def world(place: str, **limits: int) -> LocalBackend:
    places = {"own": place}
    return LocalBackend(
        names_of_corpora=("own",), store=CorpusStore(places, None), places=places, limits=ParsingLimits(**limits)
    )


@pytest.fixture
def served(place: str) -> Iterator[Service]:
    with service(world(place), upload=True) as running:
        yield running


def upload(served: Service, name: str, data: bytes, **headers: str) -> Reply:
    return served.call("POST", f"/v1/documents?name={name}", data=data, headers={**BODY, **headers})


def add_next(served: Service) -> None:
    reply = upload(served, "note.txt", b"Quaxelite is blue.")
    assert (reply.status, reply.json()["added"]) == (200, 1)


def busy_parsers() -> int:
    """The processes of this one that read files, without those that wait for one."""
    return sum(seconds > 1.5 for seconds in parsers_of(os.getpid()))


def test_an_upload_that_takes_for_ever_ends_at_its_deadline_and_the_next_is_answered(served: Service) -> None:
    reply = upload(served, "endless.pdf", ENDLESS, **{"X-Deadline-Ms": "2500"})
    assert (reply.status, reply.error["code"]) == (504, "deadline")
    add_next(served)
    assert eventually(lambda: busy_parsers() == 0)
    assert served.get("/v1/corpora").json()["corpora"][0]["documents"] == 2


@contextmanager
def endless_uploads(served: Service, count: int) -> Iterator[None]:
    """Uploads that take for ever, of clients that go at the end; all are being read when this begins."""
    left = threading.Event()

    async def send() -> None:
        async with aiohttp.ClientSession(served.url, headers=BODY) as session:
            paths = [f"/v1/documents?name=endless{number}.pdf" for number in range(count)]
            sent = [asyncio.ensure_future(session.post(path, data=ENDLESS)) for path in paths]
            await asyncio.to_thread(left.wait)
            for one in sent:
                one.cancel()
            await asyncio.gather(*sent, return_exceptions=True)

    clients = threading.Thread(target=lambda: asyncio.run(send()))
    clients.start()
    try:
        assert eventually(lambda: busy_parsers() == count, seconds=180)
        yield
    finally:
        left.set()
        clients.join()


def test_slow_files_do_not_slow_the_next_and_end_when_their_clients_go(served: Service) -> None:
    with endless_uploads(served, 3):
        add_next(served)
        assert busy_parsers() == 3
    assert eventually(lambda: busy_parsers() == 0)


@pytest.mark.parametrize(
    ("limit", "file", "reason"),
    [
        ({"cpu_s": 1}, (50_000, 400), "cpu_limit"),
        ({"memory_mib": 512}, (4_000_000, 1), "memory_limit"),
        ({"pages": 9}, (1, 10), "too_many_pages"),
    ],
)
def test_a_file_that_reaches_a_limit_is_rejected_with_the_limit(
    place: str, limit: dict[str, int], file: tuple[int, int], reason: str
) -> None:
    with service(world(place, **limit), upload=True) as served:
        upload(served, "file.pdf", slow_pdf(1))
        reply = upload(served, "file.pdf", slow_pdf(*file)).json()
        assert reply["added"] == 0 and [one["reason"] for one in reply["rejected"]] == [reason]
        assert reply["rejected"][0]["name"] == "file.pdf" and str(next(iter(limit.values()))) in str(reply["rejected"])
        assert (Path(place) / "uploads/(anonymous)/file.pdf").read_bytes() == slow_pdf(1)
        assert served.get("/v1/corpora").json()["corpora"][0]["documents"] == 2


def test_only_the_user_of_the_service_can_read_uploaded_files(served: Service, place: str) -> None:
    (Path(place) / "uploads").mkdir(mode=0o755)
    upload(served, "note.txt", b"Quaxelite is blue.")
    file = Path(place) / "uploads/(anonymous)/note.txt"
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (file, file.parent, file.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]
