"""Which label sections belong together clinically, by LOINC code. Source: FDARxBench §B.3 (context selection)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pydantic import BaseModel, ConfigDict, model_validator

from fdarx_core.generation.library import load_library


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")

    a: str
    b: str
    why: str
    links: str


class _Table(BaseModel):
    """`section_pairs.yaml`: roles with their codes, and the pairs of roles."""

    model_config = ConfigDict(extra="forbid")

    sections: dict[str, list[str]]
    pairs: list[_Row]

    @model_validator(mode="after")
    def _roles_and_codes_are_known(self) -> _Table:
        codes = [code for listed in self.sections.values() for code in listed]
        if twice := sorted({code for code in codes if codes.count(code) > 1}):
            raise ValueError(f"section_pairs.yaml: codes under two roles: {twice}")
        if unknown := {role for row in self.pairs for role in (row.a, row.b)} - set(self.sections):
            raise ValueError(f"section_pairs.yaml: pairs of unknown roles: {sorted(unknown)}")
        return self


@dataclass(frozen=True, slots=True)
class SectionPair:
    """Two kinds of section that interact: their roles and LOINC codes, why, and what a question links."""

    role_a: str
    role_b: str
    codes_a: tuple[str, ...]
    codes_b: tuple[str, ...]
    why: str
    links: str


@cache
def _table() -> _Table:
    return _Table.model_validate(load_library("section_pairs"))


def section_pairs() -> list[SectionPair]:
    """The table of section pairs, in the order of `section_pairs.yaml`."""
    codes = {role: tuple(listed) for role, listed in _table().sections.items()}
    return [SectionPair(row.a, row.b, codes[row.a], codes[row.b], row.why, row.links) for row in _table().pairs]


@cache
def roles() -> frozenset[str]:
    """The names of all section roles."""
    return frozenset(_table().sections)


@cache
def _roles_by_code() -> dict[str, str]:
    return {code: role for role, listed in _table().sections.items() for code in listed}


def role_of(code: str) -> str:
    """The role of a section by its LOINC code, "" for sections outside the table."""
    return _roles_by_code().get(code, "")
