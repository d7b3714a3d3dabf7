"""The libraries of question generation: one YAML file each, which a test checks."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from fdarx_core.text.tokens import vocabulary


def load_library(name: str) -> Any:
    """Return the contents of `<name>.yaml`. Raises FileNotFoundError for an unknown name."""
    return vocabulary(__package__, f"{name}.yaml")


class SectionPair(NamedTuple):
    """Two roles of sections that bear on one decision, why, and what a question over both asks.

    `by` is what a passage of each must have in common: "term", "rate" or "amount".
    """

    a: str
    b: str
    by: str
    why: str
    links: str


@cache
def section_pairs() -> list[SectionPair]:
    """Return the pairs of section roles of `section_pairs.yaml` whose passages interact clinically."""
    return [SectionPair(**row) for row in load_library("section_pairs")["pairs"]]


class SectionQuota(NamedTuple):
    """The weight of a role of sections among the passages of a label, and the kinds of questions preferred there."""

    weight: int
    kinds: list[str]


@cache
def section_quotas() -> dict[str, SectionQuota]:
    """Return the quotas by role, in the order in which they come first."""
    return {role: SectionQuota(**row) for role, row in load_library("question_kinds")["roles"].items()}


@cache
def role_of(code: str) -> str:
    """Return the role of a section by its LOINC code, "" for a section without one."""
    roles = load_library("section_pairs")["sections"]
    return next((role for role, codes in roles.items() if code in codes), "")
