"""A review of a factuality run in a browser: from the sample through disagreements to the agreement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fdarx_core.storage import RunDirectory
from jobs.cli import main
from tests.review.factuality_run import factuality_run
from tests.serving.browser import browser as chromium

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return factuality_run(tmp_path_factory.mktemp("facts"))


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A page in which an error or a request over the network fails the test."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here; install one, or set BROWSER_PATH")
    faults: list[str] = []
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "profile", executable_path=path, args=["--no-sandbox"], accept_downloads=True,
            viewport={"width": 1280, "height": 1000},
        )  # fmt: skip
        opened = context.new_page()
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.on("request", lambda asked: faults.append(asked.url) if asked.url.startswith("http") else None)
        yield opened
        context.close()
    assert faults == []


def saved(page: Page, folder: Path) -> str:
    with page.expect_download() as download:
        page.keyboard.press("s")
    place = folder / download.value.suggested_filename
    download.value.save_as(place)
    return str(place)


def mark(page: Page, file: Path, keys: str, left: int) -> None:
    """Answer all items by the keys in turn."""
    page.goto(file.as_uri())
    expect(page.locator("#listed")).to_have_text(f"{left} of {left} items")
    for at in range(left):
        page.keyboard.press(keys[at % len(keys)])
    expect(page.locator("#counted")).to_have_text(f"{left} of {left} answered")


def test_a_factuality_run_is_reviewed_from_the_sample_to_the_agreement(
    run: RunDirectory, page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    review = tmp_path / "review"
    given = ["--n", "40", "--tasks", "claim", "--annotators", "anna,ben", "--overlap", "0.5", "--undecided-first"]
    assert main(["review", "sample", str(run.root), *given, "--out", str(review), "--quiet"]) == 0
    mark(page, review / "anna.html", "1112?", 30)
    page.screenshot(path=tmp_path / "annotator.png", full_page=True)
    page.locator("#filter-state").select_option("unsure")
    expect(page.locator("#listed")).to_have_text("6 of 30 items")
    expect(page.locator("#list button").first).to_contain_text("Unsure")
    page.locator("#filter-state").select_option("open")
    expect(page.locator("#listed")).to_have_text("0 of 30 items")
    page.locator("#filter-state").select_option("")
    page.locator("#filter-decision").select_option(label=page.locator("#filter-decision option").nth(1).inner_text())
    expect(page.locator("#listed")).not_to_have_text("30 of 30 items")
    page.locator("#task").focus()
    files = [saved(page, tmp_path)]
    mark(page, review / "ben.html", "b", 30)
    files.append(saved(page, tmp_path))
    assert main(["review", "import", str(review), *files]) == 0
    told = capsys.readouterr().out
    assert "60 annotations were taken in" in told
    assert "items have different or unsure marks, 0 of them adjudicated" in told
    assert main(["review", "adjudicate", str(review), "--adjudicator", "dora"]) == 0
    count = int(capsys.readouterr().out.split()[0])
    page.goto((review / "dora.html").as_uri())
    expect(page.locator("#marks")).to_contain_text("ben: Contradicted")
    page.screenshot(path=tmp_path / "adjudicator.png", full_page=True)
    mark(page, review / "dora.html", "a", count)
    assert main(["review", "import", str(review), saved(page, tmp_path)]) == 0
    assert f"{count} items have different or unsure marks, {count} of them adjudicated" in capsys.readouterr().out
    assert main(["review", "report", str(review), "--resamples", "100", "--quiet"]) == 0
    assert "Claim verdict" in capsys.readouterr().out
