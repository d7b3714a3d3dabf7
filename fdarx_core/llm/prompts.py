"""A prompt is data: one YAML in `prompts/`, checked when loaded, so that a wrong one stops a job before it asks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml
from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel, ConfigDict, Field, ValidationError

_JINJA = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


class PromptError(ValueError):
    """A prompt file that can't be used; the message names the file, the field and what is wrong with it."""


class Example(BaseModel):
    """One worked example: the slots of a made-up case and the reply it should get. It is asked as a turn of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    slots: dict[str, Any]
    reply: dict[str, Any]


class Prompt(BaseModel):
    """What a task says to a model. `slots` maps each input to what it holds; `response` names the reply's class.

    `system` and `user` are Jinja2 templates over the slots. Raise `version` with every change to what is asked: it is
    part of each request's key, and answers to another version are not read back.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    version: int = Field(ge=1)
    purpose: str = Field(min_length=1)
    slots: dict[str, str] = Field(min_length=1)
    system: str = Field(min_length=1)
    user: str = Field(min_length=1)
    response: str = Field(min_length=1)
    examples: list[Example] = Field(default_factory=list)

    @classmethod
    def load(cls, name: str) -> Prompt:
        """The prompt in `prompts/NAME.yaml`. Raises PromptError where the file is missing or wrong."""
        file = f"prompts/{name}.yaml"
        try:
            text = resources.files("prompts").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise PromptError(f"{file}: no such prompt; a task's prompt is a file of the task's name") from None
        prompt = cls.from_yaml(text, file)
        if prompt.name != name:
            raise PromptError(f"{file}: its name is {prompt.name!r}; name the file after it, or correct the name")
        return prompt

    @classmethod
    def from_yaml(cls, text: str, file: str) -> Prompt:
        """The prompt that `text` holds; `file` is what errors call it."""
        try:
            prompt = cls.model_validate(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise PromptError(f"{file}: not YAML: {' '.join(str(error).split())}") from error
        except ValidationError as error:
            raise PromptError(f"{file}: {explained(error)}") from error
        prompt._check_slots(file)
        return prompt

    def render(self, slots: Mapping[str, Any]) -> list[dict[str, str]]:
        """System, the examples as turns, then the user message. The slots must be exactly those declared."""
        self._refuse_other_slots(slots)
        try:
            system, user = filled(self.system, slots), filled(self.user, slots)
        except TemplateError as error:
            raise ValueError(f"task {self.name}: its prompt could not be rendered: {error}") from error
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]

    def _refuse_other_slots(self, slots: Mapping[str, Any]) -> None:
        if slots.keys() != self.slots.keys():
            missing, unknown = sorted(self.slots.keys() - slots.keys()), sorted(slots.keys() - self.slots.keys())
            raise ValueError(f"task {self.name}: missing slots {missing}, unknown slots {unknown}")

    def _check_slots(self, file: str) -> None:
        used: set[str] = set()
        for field in ("system", "user"):
            try:
                used |= meta.find_undeclared_variables(_JINJA.parse(getattr(self, field)))
            except TemplateError as error:
                raise PromptError(f"{file}: {field} is no Jinja2 template: {error}") from error
        if undeclared := sorted(used - self.slots.keys()):
            raise PromptError(f"{file}: uses {undeclared}, not declared under slots")
        if unused := sorted(self.slots.keys() - used):
            raise PromptError(f"{file}: declares slots {unused} that neither system nor user uses")


def explained(error: ValidationError) -> str:
    """What pydantic found, on one line: `field.path: what is wrong; …`, without the input itself."""
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'content'}: {fault['msg']}" for fault in error.errors())


def filled(source: str, slots: Mapping[str, Any]) -> str:
    """A template with its slots. Jinja's own `render` lays out its globals anew, which costs more than the rest."""
    compiled = _template(source)
    return "".join(compiled.root_render_func(compiled.new_context(dict(slots), shared=True)))


@cache
def _template(source: str) -> Template:
    """The compiled template of a source, kept by its text: compiled templates can't travel to workers, prompts can."""
    return _JINJA.from_string(source)
