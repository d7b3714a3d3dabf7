"""The libraries of question generation: one YAML file each, which a test checks."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from fdarx_core.baseline.tokens import vocabulary


def load_library(name: str) -> Any:
    """Return the contents of `<name>.yaml`. Raises FileNotFoundError for an unknown name."""
    return vocabulary(__package__, f"{name}.yaml")


class SectionPair(NamedTuple):
    """Two roles of sections that bear on one decision, why, and what a question over both asks."""

    a: str
    b: str
    why: str
    links: str


@cache
def section_pairs() -> list[SectionPair]:
    """Return the pairs of section roles of `section_pairs.yaml` whose passages interact clinically."""
    return [SectionPair(**row) for row in load_library("section_pairs")["pairs"]]


@cache
def _roles_by_code() -> dict[str, str]:
    return {code: role for role, codes in load_library("section_pairs")["sections"].items() for code in codes}


def role_of(code: str) -> str:
    """Return the role of a section by its LOINC code, "" for a section without one."""
    return _roles_by_code().get(code, "")
