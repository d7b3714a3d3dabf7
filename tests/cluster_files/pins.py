"""Versions that pyproject.toml states, which everything under cluster/ must agree with."""

from __future__ import annotations

import sys
from importlib import import_module

from packaging.requirements import Requirement

from tests.cluster_files.tree import REPOSITORY

_toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # pytest brings tomli where it is needed
_PROJECT = _toml.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

VERSION: str = _PROJECT["version"]
EXTRAS: dict[str, list[str]] = _PROJECT["optional-dependencies"]


def requirements(*extras: str) -> list[Requirement]:
    """Those of the project and of these extras."""
    return [
        Requirement(one) for one in [*_PROJECT["dependencies"], *(line for name in extras for line in EXTRAS[name])]
    ]


RAY = next(iter(next(one for one in requirements() if one.name == "ray").specifier)).version
"""The pinned release of Ray."""
