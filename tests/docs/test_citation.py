"""CITATION.cff has what the Citation File Format 1.2.0 requires."""

from __future__ import annotations

import tomllib
import yaml

from tests.conftest import REPOSITORY

_TYPES = {"article", "software"}


def test_has_what_the_format_requires() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0" and citation["message"] and citation["license"] == project["license"]
    for work in [citation, *citation["references"]]:
        assert work["title"] and work["type"] in _TYPES
        for author in work["authors"]:
            assert author.keys() in ({"name"}, {"family-names", "given-names"}), author
