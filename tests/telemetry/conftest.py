"""The collector of these tests. A process makes what sends its spans once, so there is one collector a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fdarx_core import telemetry
from tests.telemetry.otlp_receiver import OtlpReceiver


@pytest.fixture(scope="session")
def running() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def collector(running: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> OtlpReceiver:
    """The collector to which the processes of the test send spans."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
    telemetry.flush()
    running.spans.clear()
    return running
