"""A browser, the stand-in that its pages come from, an index to which documents are added, and a parser for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fdarx_core.documents.isolated import ParsingLimits, ParsingResult
from fdarx_core.documents.parsing_process import read_file_chunks
from fdarx_core.records import Reject
from jobs.cli import main as fdarx
from tests.serving.browser import browser as chromium
from tests.serving.page_server import Behaviour, PageServer, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright_api = pytest.importorskip("playwright.sync_api")
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here; install one, or set BROWSER_PATH")
    with playwright_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def running() -> Iterator[PageServer]:
    with serving() as server:
        yield server


@pytest.fixture
def server(running: PageServer) -> PageServer:
    running.play, running.stopped = Behaviour(), 0
    running.asked.clear()
    return running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, server: PageServer) -> Iterator[Page]:
    """The page, opened; whatever breaks in it or would leave the server fails the test."""
    faults: list[str] = []
    opened = context.new_page()
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda told: faults.append(told.text) if "Content Security Policy" in told.text else None)
    opened.on("request", lambda asked: faults.append(asked.url) if not asked.url.startswith(server.url) else None)
    opened.goto(server.url)
    opened.wait_for_selector("#send:enabled")
    yield opened
    assert faults == []


@pytest.fixture
def place(tmp_path: Path) -> str:
    """An index of one document, by its words alone."""
    (tmp_path / "first.txt").write_text("Stability studies of tablets run for twelve months at 25 degrees.")
    out = str(tmp_path / "index")
    assert fdarx(["index", "--documents", str(tmp_path / "first.txt"), "--words-only", "--out", out, "--quiet"]) == 0
    return out


class ParserHere:
    """Reads uploaded files in this process, as `IsolatedParser` does in others, of which each upload starts two."""

    def __init__(self, limits: ParsingLimits) -> None:
        self._limits = limits

    async def parse(self, file: Path, size: int, overlap: int, client: str = "") -> ParsingResult:
        read = await asyncio.to_thread(lambda: list(read_file_chunks(str(file), size, overlap, self._limits.pages)))
        rejects = [one for one in read if isinstance(one, Reject)]
        return ParsingResult([one for one in read if not isinstance(one, Reject)], rejects)

    def close(self) -> None:
        return


@pytest.fixture
def files_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what becomes of uploaded files, wherever they are read."""
    monkeypatch.setattr("fdarx_core.pipeline.uploading.IsolatedParser", ParserHere)
