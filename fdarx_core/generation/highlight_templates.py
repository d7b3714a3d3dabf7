"""The template library for questions on the Highlights (`library/highlights.yaml`)."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from fdarx_core.generation.library import load_library
from fdarx_core.labels.topics import Topic


def _about_drug(template: str) -> str:
    if "{drug}" not in template or not template.endswith("?"):
        raise ValueError(f"highlights.yaml: {template!r} must hold {{drug}} and end with a question mark")
    return template


def _about_topic(template: str) -> str:
    if "{topic}" not in template or template.startswith("{topic}"):
        raise ValueError(f"highlights.yaml: {template!r} must hold {{topic}}, and not at its start")
    return template


Whole = Annotated[str, AfterValidator(_about_drug)]
Topical = Annotated[Whole, AfterValidator(_about_topic)]


class HeadingTemplates(BaseModel):
    """What may be asked under one heading; the file's head explains the keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    category: Topic
    whole: list[Whole] = Field(min_length=1)
    topic: list[Topical] = Field(min_length=1)


class _Library(BaseModel):
    model_config = ConfigDict(extra="forbid")

    headings: dict[str, HeadingTemplates]


@cache
def highlight_templates() -> dict[str, HeadingTemplates]:
    """Templates by the LOINC code of the heading."""
    return _Library.model_validate(load_library("highlights")).headings
