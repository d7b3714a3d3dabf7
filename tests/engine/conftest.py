"""The engine, bare and behind Ray Serve, each started once for all tests that ask it; where it can't be had they skip,
or fail where it is required."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fdarx_core.storage import Location
from serving.served_model import ServedModel, load_served
from tests.conftest import EXAMPLES, REPOSITORY, new_bucket
from tests.engine.environment import installed
from tests.engine.serve_models import Up, described, serving
from tests.engine.server import built, running
from tests.engine.small_model import converted
from tests.environments import Unavailable
from tests.storage.swift_server import Swift

KEY_ENV = "FDARX_ENGINE_KEY"
"""As in serving/models/."""


@dataclass(frozen=True)
class Tiny:
    """The engine's interpreter, and a small model for it."""

    python: Path
    model: Path


@dataclass(frozen=True)
class Served:
    """A tiny model behind Ray Serve: as it was described, where it is, and the folder of its adapters."""

    model: ServedModel
    up: Up
    adapters: Location


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    texts = [*sorted(EXAMPLES.glob("*.xml")), *sorted((REPOSITORY / "prompts").glob("*.yaml"))]
    with _or_skip():
        python = installed()
        return Tiny(python, built(python, tmp_path_factory.mktemp("models") / "tiny", texts))


@pytest.fixture(scope="session")
def engine(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bare engine's address."""
    with _or_skip(), running(tiny.python, tiny.model, tmp_path_factory.mktemp("engine") / "engine.log") as address:
        yield address


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The directory of SmolLM2-135M-Instruct."""
    with _or_skip():
        return converted(installed())


@pytest.fixture(scope="session")
def served(tiny: Tiny, swift: Swift, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One replica behind Serve's proxy, under the name `small`, with a key, and with a folder on S3 for adapters, empty
    at first."""
    folder = tmp_path_factory.mktemp("serve")
    with new_bucket(swift) as bucket, pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_ENV, "the-key-of-small")
        adapters = {"path": str(bucket / "tuned")}
        more = {"ask": {"sampling": {"temperature": 1.0}}, "key_env": KEY_ENV, "adapters": adapters}
        file = described(folder / "small.yaml", tiny.model, **more)
        with _or_skip(), serving(tiny.python, [file], folder) as up:
            yield Served(load_served(file), up, bucket / "tuned")


@contextmanager
def _or_skip() -> Iterator[None]:
    """FDARX_REQUIRE_ENGINE=1 forbids to skip."""
    try:
        yield
    except Unavailable as reason:
        message = f"no engine to test against: {reason}"
        if os.environ.get("FDARX_REQUIRE_ENGINE") == "1":
            pytest.fail(message)
        pytest.skip(message)
