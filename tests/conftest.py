"""What all tests share: where the data lies, and an environment of their own for Ray."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def _data(name: str) -> Path:
    root = Path(os.environ.get("FDARX_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (root / name).exists():
        pytest.skip(f"no real data: {root / name} is absent; set FDARX_DATA to the folder that holds {name}")
    return root / name
