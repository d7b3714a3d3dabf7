"""Adding documents to the service on Ray Serve, as a user runs it, and a question for several labels."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from jobs.cli import main as fdarx
from tests.labels.spl import document, product, section, subject, substance
from tests.serving.local_service import eventually
from tests.serving.service_process import post, running
from tests.serving.slow_files import parsers_of, slow_pdf

pytestmark = pytest.mark.service
QUESTION = "How long are reserve samples of quaxelite kept?"
SEVERAL = "Which labels mention thinarolone?"
NEXT_WITHIN_S = 5.0
BODY = {"Content-Type": "application/octet-stream"}


def test_added_documents_are_answered_from_without_a_restart_and_one_that_takes_for_ever_stops_none(
    tmp_path: Path,
) -> None:
    says = section("<paragraph>Mivorel makes thinarolone act for longer.</paragraph>", "DRUG INTERACTIONS", "34073-7")
    about = subject(product("Mivorel", "mivorel", "1-1", substance("MIVOREL", "U1", "MIVOREL", "U1")))
    (tmp_path / "first.xml").write_text(document(says, subject=about))
    out = str(tmp_path / "index")
    assert fdarx(["index", "--documents", str(tmp_path / "first.xml"), "--words-only", "--out", out, "--quiet"]) == 0
    # the service does not look for new versions by itself within the test
    with running(tmp_path, "--index", f"own={out}", "--upload", "--poll-s", "3600") as service:
        added, answered, several = asyncio.run(add_and_ask(service.url))
        asyncio.run(add_beside_endless_files(service.url))
        [indexer] = service.replicas("Indexer")
        assert eventually(lambda: len(parsers_of(indexer)) == 1)  # the one that waits for the next file
    assert eventually(lambda: not parsers_of(indexer))
    assert added["added"] == 1 and not added["rejected"]
    assert [one["drug"] for one in several["passages"] if one["cited"]] == ["Mivorel"]
    assert "seven years" in answered["answer"] and answered["index"]["version"] == added["version"]


async def add_and_ask(url: str) -> list[dict[str, Any]]:
    async with aiohttp.ClientSession(url) as session:
        text = b"Reserve samples of quaxelite are kept for seven years."
        async with session.post("/v1/documents?name=samples.txt", data=text) as reply:
            added = await reply.json()
        asked = [await post(session, "/v1/answers", {"question": question}) for question in (QUESTION, SEVERAL)]
        return [added, *(reply for _, reply in asked)]


async def add_beside_endless_files(url: str) -> None:
    """Others are added while three files are read that take for ever, and after these have reached their deadline."""
    endless = slow_pdf(50_000, pages=400)
    async with aiohttp.ClientSession(url) as session:
        slow = [asyncio.create_task(add(session, f"slow{at}.pdf", endless, 6)) for at in range(3)]
        await asyncio.sleep(3)
        status, seconds = await add(session, "during.txt", b"Quaxelite is blue.", 60)
        assert status == 200 and seconds < NEXT_WITHIN_S
        assert [status for status, _ in await asyncio.gather(*slow)] == [504] * 3
        status, seconds = await add(session, "after.txt", b"Quaxelite is green.", 60)
        assert status == 200 and seconds < NEXT_WITHIN_S


async def add(session: aiohttp.ClientSession, name: str, data: bytes, seconds: float) -> tuple[int, float]:
    """Upload a file with a deadline; return the status and the seconds that it took."""
    start, headers = time.monotonic(), {**BODY, "X-Deadline-Ms": str(int(seconds * 1000))}
    async with session.post(f"/v1/documents?name={name}", data=data, headers=headers) as reply:
        await reply.read()
        return reply.status, time.monotonic() - start
