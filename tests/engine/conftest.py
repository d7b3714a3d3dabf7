"""The engine, started once for all tests that ask it; where it can't be had they skip, or fail where it is required."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.conftest import EXAMPLES, REPOSITORY
from tests.engine.environment import Unavailable, installed
from tests.engine.server import built, running


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The engine's address. FDARX_REQUIRE_ENGINE=1 forbids to skip."""
    folder = tmp_path_factory.mktemp("engine")
    texts = [*sorted(EXAMPLES.glob("*.xml")), *sorted((REPOSITORY / "prompts").glob("*.yaml"))]
    try:
        python = installed()
        model = built(python, folder / "model", texts)
        with running(python, model, folder / "engine.log") as address:
            yield address
    except Unavailable as reason:
        message = f"no engine to test against: {reason}"
        if os.environ.get("FDARX_REQUIRE_ENGINE") == "1":
            pytest.fail(message)
        pytest.skip(message)
