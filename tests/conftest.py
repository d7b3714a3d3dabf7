"""What all tests share: where the data lies, and an environment of their own for Ray."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from filelock import FileLock
from hypothesis import settings

from fdarx_core.storage import Location
from fdarx_core.storage.s3_client import client
from tests.jobs.in_process import run_job
from tests.storage.swift_server import Swift, Unavailable, running
from tests.storage.swift_server import settings as server_settings

settings.register_profile("ci", deadline=None, max_examples=20, derandomize=True)
settings.register_profile("nightly", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
"""Without a deadline, because the time of an example depends on how busy the machine is."""

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
def guidelines() -> Path:
    """The folder of guideline chunks and questions as QA-RAG's authors released them."""
    return _data("guidelines")


@pytest.fixture(scope="session")
def toy() -> Path:
    """The published questions that come without their labels."""
    return _data("fdarxbench/qa_toy.jsonl")


@pytest.fixture(scope="session")
def example_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small benchmark of the example labels, made once for all workers; tests only read it."""

    def build(out: Path) -> None:
        amounts = ("--passages", "3", "--section-pairs", "2", "--twins", "4", "--cpus", "2")
        done = run_job("build", "--labels", EXAMPLES, "--out", out, *amounts)
        assert done.returncode == 0, done.stderr

    return _made_once(tmp_path_factory, "example-build", build)


@pytest.fixture(scope="session")
def split_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small benchmark of the example labels with one label in the dev split; tests only read it."""

    def build(out: Path) -> None:
        done = run_job("build", "--labels", EXAMPLES, "--out", out, "--twins", 4, "--dev-drugs", 1, "--cpus", 2)
        assert done.returncode == 0, done.stderr

    return _made_once(tmp_path_factory, "split-build", build)


@pytest.fixture(scope="session")
def example_evaluation(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The evaluation of the built-in rules on that benchmark in all settings; every worker has a copy of one."""

    def evaluate(out: Path) -> None:
        options = ("--benchmark", example_build, "--out", out, "--cpus", 2, "--resamples", 200)
        done = run_job("evaluate", *options)
        assert done.returncode == 0, done.stderr
        assert "Table 1" in done.stdout and f"open {out / 'report.html'}" in done.stdout

    made = _made_once(tmp_path_factory, "example-evaluation", evaluate)
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("copies") / "evaluation"))


def _made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder that `make` writes, which one worker of a session makes for all."""
    base = factory.getbasetemp()
    shared = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "shared"
    with FileLock(shared.with_name(f"shared-{name}.lock")):
        if not (shared / name).exists():
            scratch = shared / f"{name}.new"
            shutil.rmtree(scratch, ignore_errors=True)
            make(scratch)
            scratch.rename(shared / name)
    return shared / name


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
    with new_bucket(swift) as location:
        yield location


@contextmanager
def new_bucket(swift: Swift) -> Iterator[Location]:
    """Create a bucket and point the process's environment to its server for the time of the block."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server_settings(swift).items():
            patch.setenv(name, value)
        client.cache_clear()
        name = f"labels-{uuid4().hex[:8]}"
        boto3.client("s3", config=Config(s3={"addressing_style": "path"})).create_bucket(Bucket=name)
        yield Location(f"s3://{name}")
        client.cache_clear()
