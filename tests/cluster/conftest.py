"""One cluster of three nodes for all tests that want one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cluster.nodes import Nodes, running_nodes
from tests.conftest import REPOSITORY
from tests.pipeline.scripted import KEY_VARIABLE, PLANTED_KEY


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    with TemporaryDirectory(prefix="ray") as folder, pytest.MonkeyPatch.context() as patch:
        # workers have the environment that their node began with
        patch.setenv(KEY_VARIABLE, PLANTED_KEY)
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        with running_nodes(Path(folder)) as running:
            yield running
