"""What all tests share: where the data lies, and an environment of their own for Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from hypothesis import settings

from fdarx_core.storage import Location
from fdarx_core.storage.s3_client import client
from tests.storage.swift_server import Swift, Unavailable, running
from tests.storage.swift_server import settings as server_settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
"""How long an example takes says how busy the machine is."""

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell that runs the tests in the background has SIGINT ignored, which what they start would inherit."""

REPOSITORY = Path(__file__).parent.parent
EXAMPLES = REPOSITORY / "examples" / "labels"


@pytest.fixture(scope="session", autouse=True)
def own_ray_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Ray writes a token under HOME and reports usage; tests leave the user's home alone and stay silent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("RAY_ADDRESS", raising=False)
        yield


@pytest.fixture(scope="session")
def real_labels() -> Path:
    """The bulk release of real prescription labels; the test skips where it is absent."""
    return _data("spl/dm_spl_release_human_rx.zip")


@pytest.fixture(scope="session")
def other_labels() -> Path:
    """Real labels of other document types."""
    return _data("spl/dm_spl_release_other.zip")


@pytest.fixture(scope="session")
def toy() -> Path:
    """The published questions that come without their labels."""
    return _data("fdarxbench/qa_toy.jsonl")


@pytest.fixture(scope="session")
def example_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small benchmark of the example labels."""
    out = tmp_path_factory.mktemp("builds") / "examples"
    amounts = ("--passages", "3", "--section-pairs", "2", "--refusals", "2", "--cpus", "2")
    line = [sys.executable, "-m", "jobs.build_benchmark", "--labels", str(EXAMPLES), "--out", str(out), *amounts]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return out


def _data(name: str) -> Path:
    root = Path(os.environ.get("FDARX_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (root / name).exists():
        pytest.skip(f"no real data: {root / name} is absent; set FDARX_DATA to the folder that holds {name}")
    return root / name


@pytest.fixture(scope="session")
def swift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swift]:
    """A real S3 server."""
    try:
        with running(tmp_path_factory.mktemp("swift")) as server:
            yield server
    except Unavailable as reason:
        pytest.skip(f"no S3 server to test against: {reason}")


@pytest.fixture(scope="module")
def bucket(swift: Swift) -> Iterator[Location]:
    """A bucket of the test server, with the process's environment as a user would set it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server_settings(swift).items():
            patch.setenv(name, value)
        client.cache_clear()
        name = f"labels-{uuid4().hex[:8]}"
        boto3.client("s3", config=Config(s3={"addressing_style": "path"})).create_bucket(Bucket=name)
        yield Location(f"s3://{name}")
        client.cache_clear()
