"""The written libraries of question generation, one YAML file each; what reads one validates it."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml


def load_library(name: str) -> Any:
    """The contents of `<name>.yaml`, unvalidated. Raises FileNotFoundError for a name that is no library."""
    return yaml.safe_load(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
