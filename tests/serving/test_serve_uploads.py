"""Adding documents to the service on Ray Serve, as a user runs it, and a question for several labels."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from jobs.cli import main as fdarx
from tests.labels.spl import document, product, section, subject, substance
from tests.serving.service_process import post, running

pytestmark = pytest.mark.service
QUESTION = "How long are reserve samples of quaxelite kept?"
SEVERAL = "Which labels mention thinarolone?"


def test_an_added_document_is_answered_from_without_a_restart(tmp_path: Path) -> None:
    says = section("<paragraph>Mivorel makes thinarolone act for longer.</paragraph>", "DRUG INTERACTIONS", "34073-7")
    about = subject(product("Mivorel", "mivorel", "1-1", substance("MIVOREL", "U1", "MIVOREL", "U1")))
    (tmp_path / "first.xml").write_text(document(says, subject=about))
    out = str(tmp_path / "index")
    assert fdarx(["index", "--documents", str(tmp_path / "first.xml"), "--words-only", "--out", out, "--quiet"]) == 0

    async def add_and_ask(url: str) -> list[dict[str, Any]]:
        async with aiohttp.ClientSession(url) as session:
            text = b"Reserve samples of quaxelite are kept for seven years."
            async with session.post("/v1/documents?name=samples.txt", data=text) as reply:
                added = await reply.json()
            asked = [await post(session, "/v1/answers", {"question": question}) for question in (QUESTION, SEVERAL)]
            return [added, *(reply for _, reply in asked)]

    # the service does not look for new versions by itself within the test
    with running(tmp_path, "--index", f"own={out}", "--upload", "--poll-s", "3600") as service:
        added, answered, several = asyncio.run(add_and_ask(service.url))
    assert added["added"] == 1 and not added["rejected"]
    assert [(group["drug"], group["labels"]) for group in several["groups"]] == [("Mivorel", 1)]
    assert "seven years" in answered["answer"] and answered["index"]["version"] == added["version"]
