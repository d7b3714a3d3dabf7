"""The libraries of question generation: one YAML file each, validated when it is read."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from fdarx_core.labels.loinc import Topic
from fdarx_core.llm.prompts import parse_yaml

MAX_QUESTION = 200
"""The longest question that the rules of FDARxBench §B.4 accept, in characters."""


def load_library(name: str) -> Any:
    """Return the contents of `<name>.yaml`, not validated. Raises FileNotFoundError for an unknown name."""
    return parse_yaml(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SectionPair(_Model):
    """Two section roles whose passages interact clinically, why they do, and what a question links."""

    a: str
    b: str
    why: str
    links: str


class SectionPairLibrary(_Model):
    """`section_pairs.yaml`: section roles with their LOINC codes, and pairs of roles."""

    sections: dict[str, list[str]]
    pairs: list[SectionPair]

    @model_validator(mode="after")
    def _roles_and_codes_are_known(self) -> SectionPairLibrary:
        codes = [code for listed in self.sections.values() for code in listed]
        if twice := sorted({code for code in codes if codes.count(code) > 1}):
            raise ValueError(f"section_pairs.yaml: codes under two roles: {twice}")
        if unknown := {role for pair in self.pairs for role in (pair.a, pair.b)} - set(self.sections):
            raise ValueError(f"section_pairs.yaml: pairs of unknown roles: {sorted(unknown)}")
        return self


@cache
def section_pair_library() -> SectionPairLibrary:
    """Return the library of section pairs."""
    return SectionPairLibrary.model_validate(load_library("section_pairs"))


@cache
def roles() -> frozenset[str]:
    """Return the names of all section roles."""
    return frozenset(section_pair_library().sections)


@cache
def _roles_by_code() -> dict[str, str]:
    return {code: role for role, codes in section_pair_library().sections.items() for code in codes}


def role_of(code: str) -> str:
    """Return the role of a section by its LOINC code, "" for a section without one."""
    return _roles_by_code().get(code, "")


def _about_drug(template: str) -> str:
    if "{drug}" not in template or not template.endswith("?"):
        raise ValueError(f"highlights.yaml: {template!r} must hold {{drug}} and end with a question mark")
    return template


def _about_topic(template: str) -> str:
    if "{topic}" not in template or template.startswith("{topic}"):
        raise ValueError(f"highlights.yaml: {template!r} must hold {{topic}}, and not at its start")
    return template


HeadingTemplate = Annotated[str, AfterValidator(_about_drug)]
TopicTemplate = Annotated[HeadingTemplate, AfterValidator(_about_topic)]


class HeadingTemplates(_Model):
    """The question templates for one heading of the Highlights: for the whole heading, and for a topic of it."""

    category: Topic
    whole: list[HeadingTemplate] = Field(min_length=1)
    topic: list[TopicTemplate] = Field(min_length=1)


class _HighlightLibrary(_Model):
    headings: dict[str, HeadingTemplates]


@cache
def highlight_templates() -> dict[str, HeadingTemplates]:
    """Return the templates of `highlights.yaml` by the LOINC code of the heading."""
    return _HighlightLibrary.model_validate(load_library("highlights")).headings


class RefusalTemplate(_Model):
    """A question about an entity of one kind, and other wordings of the same question."""

    kind: str
    category: str
    text: str
    also: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _have_their_slots(self) -> RefusalTemplate:
        for text in (self.text, *self.also):
            if text.count("{drug}") != 1 or text.count("{entity}") != 1:
                raise ValueError(f"refusal.yaml: a template holds {{drug}} once and {{entity}} once: {text!r}")
        return self


class RefusalLibrary(_Model):
    """`refusal.yaml`: entities by kind with their other wordings, and templates for these kinds."""

    entities: dict[str, dict[str, list[str]]]
    templates: list[RefusalTemplate]

    @model_validator(mode="after")
    def _kinds_agree(self) -> RefusalLibrary:
        if unknown := {template.kind for template in self.templates} ^ set(self.entities):
            raise ValueError(f"refusal.yaml: kinds with entities but no template, or the reverse: {sorted(unknown)}")
        return self


@cache
def refusal_library() -> RefusalLibrary:
    """Return the library of entities and templates for refusal questions."""
    return RefusalLibrary.model_validate(load_library("refusal"))
