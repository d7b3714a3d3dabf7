"""The documentation site as `make docs` builds it: whole, and without anything from the network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fdarx_core
from jobs.cli import _JOBS, _REVIEW
from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

_LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")
_IN_STYLES = re.compile(r"url\(['\"]?((?:https?:)?//[^)]+)|@import\s+['\"]((?:https?:)?//[^'\"]+)")


def build_site(configuration: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        configuration,
        "--site-dir",
        out,
    ]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build_site(REPOSITORY / "mkdocs.yml", out)
    assert done.returncode == 0, done.stderr
    return out


def test_pages_load_nothing_from_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    assert {found for page in pages for found in _LOADED.findall(page.read_text("utf-8"))} == set()
    assert {found for file in site.rglob("*.css") for found in _IN_STYLES.findall(file.read_text("utf-8"))} == set()


def test_the_references_have_all_functions_and_jobs(site: Path) -> None:
    functions = (site / "api.html").read_text("utf-8")
    assert [name for name in fdarx_core.__all__ if f"fdarx.{name}" not in functions] == []
    commands = (site / "command-line.html").read_text("utf-8")
    anchors = [f"fdarx-{name}" for name in _JOBS] + [f"fdarx-review-{name}" for name in _REVIEW]
    assert [name for name in anchors if f'id="{name}"' not in commands] == []
    assert "--chunk-size" in commands and "maximum number of characters of a chunk" in commands


def test_files_outside_docs_are_pages_with_links_between_pages(site: Path) -> None:
    assert 'href="run-directory.html#how-the-questions-are-made"' in (site / "index.html").read_text("utf-8")
    assert 'href="judged-candidates.html"' in (site / "reviewing.html").read_text("utf-8")
    assert 'href="adding-a-filter.html"' in (site / "contributing.html").read_text("utf-8")
