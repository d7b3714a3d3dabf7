"""Where the real guidelines lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY


@pytest.fixture(scope="session")
def guidelines() -> Path:
    """The folder of guideline chunks and questions as QA-RAG's authors released them; skips where it is absent."""
    folder = Path(os.environ.get("FDARX_DATA", REPOSITORY.parent / "shared" / "data")) / "guidelines"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is absent; set FDARX_DATA to the folder that holds guidelines")
    return folder
