"""A Ray that starts slowly, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import ray

from jobs import STOPPED
from jobs.ray_session import ray_session

SLOW = Exception("The current node timed out during startup.\nThis could happen because the GCS has become overloaded.")


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What the next calls of `ray.init` raise, None for a start; the list is empty once all were called."""
    outcomes: list[Any] = []

    def init(**_: Any) -> None:
        if error := outcomes.pop(0):
            raise error

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", init)
    yield outcomes
    assert not outcomes


def test_a_slow_start_is_tried_again(attempts: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    attempts += [SLOW, None]
    with ray_session():
        pass
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("Ray did not start, trying once more: The current node timed out during startup. This")


def test_two_slow_starts_end_the_job_with_one_line(attempts: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    attempts += [SLOW, TimeoutError()]
    with pytest.raises(SystemExit) as ended, ray_session():
        pass
    assert ended.value.code == STOPPED
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: Ray did not start in two attempts: TimeoutError; ") and "free some memory" in last


def test_a_refused_cluster_is_not_tried_again(
    attempts: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    attempts += [ConnectionError("Could not find any running Ray instance.")]
    with pytest.raises(SystemExit), ray_session():
        pass
    assert "no cluster runs on this machine" in capsys.readouterr().err
