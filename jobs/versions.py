"""What a run was made with."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version


def versions() -> dict[str, str]:
    """Of Python, FDARx and the libraries on which its results rest most."""
    names = ("fdarx", "ray", "lxml", "pyarrow")
    return {"python": sys.version.split()[0], **{name: _version(name) for name in names}}


def _version(name: str) -> str:
    """Under `ray job submit` the project runs from its folder, without being installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
