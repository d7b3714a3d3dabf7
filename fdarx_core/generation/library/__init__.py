"""The libraries of question generation: one YAML file each, which a test checks."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from fdarx_core.baseline.tokens import expand, vocabulary

MIN_QUESTION, MAX_QUESTION = 10, 200
MIN_ANSWER, MAX_ANSWER = 5, 600
"""The lengths that the rules of FDARxBench §B.4 accept, in characters."""


def has_right_length(question: str, answer: str) -> bool:
    """Return whether a question and its answer are neither too short nor too long."""
    return MIN_QUESTION <= len(question) <= MAX_QUESTION and MIN_ANSWER <= len(answer) <= MAX_ANSWER


def load_library(name: str) -> Any:
    """Return the contents of `<name>.yaml`. Raises FileNotFoundError for an unknown name."""
    return vocabulary(__package__, f"{name}.yaml")


def any_of(name: str) -> str:
    """Return the alternatives of a list of `sentences.yaml` as part of a regular expression."""
    entries = load_library("sentences")
    return expand(entries[name], entries)


@cache
def section_pairs() -> list[tuple[str, str]]:
    """Return the pairs of section roles of `section_pairs.yaml` whose passages interact clinically."""
    return [(row["a"], row["b"]) for row in load_library("section_pairs")["pairs"]]


@cache
def _roles_by_code() -> dict[str, str]:
    return {code: role for role, codes in load_library("section_pairs")["sections"].items() for code in codes}


def role_of(code: str) -> str:
    """Return the role of a section by its LOINC code, "" for a section without one."""
    return _roles_by_code().get(code, "")


class RefusalTemplate(NamedTuple):
    """A question about an entity of one kind, and other wordings of the same question."""

    kind: str
    category: str
    text: str
    also: tuple[str, ...] = ()


@cache
def refusal_templates() -> list[RefusalTemplate]:
    """Return the templates of `refusal.yaml`."""
    rows = load_library("refusal")["templates"]
    return [RefusalTemplate(**row | {"also": tuple(row.get("also", ()))}) for row in rows]


def refusal_entities() -> dict[str, dict[str, list[str]]]:
    """Return the entities of `refusal.yaml` by kind, with their other wordings."""
    return load_library("refusal")["entities"]  # type: ignore[no-any-return]
