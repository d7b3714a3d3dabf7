"""A Ray that starts slowly, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from jobs import STOPPED
from jobs.ray_session import ray_session, start_local_ray
from tests.serving.listening import open_ports
from tests.serving.service_process import REPOSITORY

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


_SESSION = """
import ray, sys
from jobs.ray_session import ray_session

with ray_session(1):
    ray.get(ray.remote(lambda: 1).remote())
    print(ray._private.worker._global_node.get_session_dir_path(), flush=True)
    sys.stdin.readline()
"""


@pytest.mark.service
def test_a_local_instance_is_for_this_user_alone(tmp_path: Path) -> None:
    """No other machine reaches its ports, no other user of this machine its files and its token."""
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir(mode=0o755)
    token.write_text("0" * 64)
    environment = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
    with subprocess.Popen(
        [sys.executable, "-c", _SESSION],
        cwd=REPOSITORY,
        env={**environment, "HOME": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        session = Path(process.stdout.readline().strip())
        assert open_ports(process.pid) == {}
        assert (session / "sockets" / "raylet").is_socket()
        assert any(folder.stat().st_mode & 0o077 == 0 for folder in session.parents)
        assert token.stat().st_mode & 0o077 == 0 and token.read_text() == "0" * 64
        process.stdin.close()
    assert process.returncode == 0


def test_a_folder_that_others_can_enter_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / f"fdarx-{os.getuid()}").mkdir(mode=0o755)
    with pytest.raises(SystemExit), ray_session():
        pass
    assert "delete it, or set RAY_TMPDIR" in capsys.readouterr().err


def test_without_a_token_replicas_are_open_to_the_network(
    attempts: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    for host in ("0.0.0.0", "::", "192.0.2.7", "service.example.org"):
        with pytest.raises(ValueError, match="unset RAY_AUTH_MODE"):
            start_local_ray(replicas=True, host=host)
    attempts += [None, None]
    start_local_ray(replicas=True)
    assert "warning: RAY_AUTH_MODE=disabled" in capsys.readouterr().err
    start_local_ray(replicas=False)
    assert capsys.readouterr().err == ""


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
