"""A server whose model judges and proposes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.llm.loopback_server import LoopbackServer
from tests.review.criteria_model import Model


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def server(model: Model) -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=model) as running:
        yield running
