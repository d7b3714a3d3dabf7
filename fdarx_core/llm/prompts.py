"""A prompt is data: one YAML in `prompts/`, checked when loaded, so that a wrong one stops a job before it asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any, TypeVar

import yaml
from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

_JINJA = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_FILES = resources.files("prompts")
_CRITERIA = "criteria.yaml"

ModelT = TypeVar("ModelT", bound=BaseModel)


class PromptError(ValueError):
    """A prompt file that can't be used; the message names the file, the field and what is wrong with it."""


class Example(BaseModel):
    """One worked example: the slots of a made-up case and the reply it should get. It is asked as a turn of its own.

    `reply` holds the fields of the reply's class, or is a text where the task's reply is plain text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    slots: dict[str, Any]
    reply: dict[str, Any] | str


class Criterion(BaseModel):
    """One rule of a domain expert, and the names of the tasks whose prompts say it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z_]+$")
    text: str = Field(min_length=1)
    applies_to: list[str] = Field(min_length=1)


class Criteria(BaseModel):
    """What experts ask of questions: `prompts/criteria.yaml`, or a file of a user's own that stands in for it.

    Source: FDARxBench §3.2, expert feedback loop.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    purpose: str
    rules: list[Criterion]

    @classmethod
    @cache
    def load(cls) -> Criteria:
        """The project's criteria, read once. Raises PromptError where the file is wrong."""
        return cls.from_yaml(_read(_CRITERIA))

    @classmethod
    def from_yaml(cls, text: str, file: str = f"prompts/{_CRITERIA}") -> Criteria:
        """The criteria that `text` holds; each must have an id of its own and name tasks that exist."""
        criteria = _validated(cls, text, file)
        ids = [rule.id for rule in criteria.rules]
        if twice := sorted({one for one in ids if ids.count(one) > 1}):
            raise PromptError(f"{file}: rules of the same id: {twice}")
        named = {name for rule in criteria.rules for name in rule.applies_to}
        if unknown := sorted(name for name in named if not _FILES.joinpath(f"{name}.yaml").is_file()):
            raise PromptError(f"{file}: rules apply to {unknown}, which are no prompts")
        return criteria

    def for_task(self, name: str) -> str:
        """The rules of one task as a list, one `- [id] text` a line; "" where none applies."""
        return "\n".join(f"- [{rule.id}] {rule.text}" for rule in self.rules if name in rule.applies_to)


class Prompt(BaseModel):
    """What a task says to a model. `slots` maps each input to what it holds; `response` names the reply's class.

    `system` and `user` are Jinja2 templates over the slots and, where experts' criteria apply to the task, `criteria`:
    these are no slot, but stand in the messages and so in each request's key. Raise `version` with every change to what
    is asked: it is part of the key as well, and answers to another version are not read back.
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
    _criteria: str = PrivateAttr(default="")

    @classmethod
    def load(cls, name: str) -> Prompt:
        """The prompt in `prompts/NAME.yaml`. Raises PromptError where the file is missing or wrong."""
        file = f"prompts/{name}.yaml"
        try:
            text = _read(f"{name}.yaml")
        except FileNotFoundError:
            raise PromptError(f"{file}: no such prompt; a task's prompt is a file of the task's name") from None
        prompt = cls.from_yaml(text, file, Criteria.load().for_task(name))
        if prompt.name != name:
            raise PromptError(f"{file}: its name is {prompt.name!r}; name the file after it, or correct the name")
        return prompt

    @classmethod
    def from_yaml(cls, text: str, file: str, criteria: str = "") -> Prompt:
        """The prompt that `text` holds; `file` is what errors call it, `criteria` the list that it must include."""
        prompt = _validated(cls, text, file)
        prompt._criteria = criteria
        prompt._check_slots(file)
        return prompt

    @property
    def says_criteria(self) -> bool:
        """Whether experts' criteria stand in what it says."""
        return bool(self._criteria)

    def with_criteria(self, criteria: Criteria) -> Prompt:
        """The same prompt with other criteria. Raises PromptError where it says none, or they have none for it."""
        prompt = self.model_copy()
        prompt._criteria = criteria.for_task(self.name)
        prompt._check_slots(f"prompts/{self.name}.yaml")
        return prompt

    def render(self, slots: Mapping[str, Any]) -> list[dict[str, str]]:
        """System and user message, between which the examples' turns belong. The slots: just those declared."""
        self._refuse_other_slots(slots)
        values = {**slots, "criteria": self._criteria}
        try:
            system, user = filled(self.system, values), filled(self.user, values)
        except TemplateError as error:
            raise ValueError(f"task {self.name}: its prompt could not be rendered: {error}") from error
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]

    def turns(self, said: Callable[[Any], str]) -> list[dict[str, str]]:
        """The examples as turns of user and assistant; `said` gives the text of an example's reply.

        Raises ValueError as `render` and as `said` do.
        """
        turns = []
        for example in self.examples:
            turns.append(self.render(example.slots)[-1])
            turns.append({"role": "assistant", "content": said(example.reply)})
        return turns

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
        if "criteria" in self.slots or ("criteria" in used) != bool(self._criteria):
            raise PromptError(f"{file}: {{{{ criteria }}}} is no slot, and stands where criteria.yaml names this task")
        if undeclared := sorted(used - self.slots.keys() - {"criteria"}):
            raise PromptError(f"{file}: uses {undeclared}, not declared under slots")
        if unused := sorted(self.slots.keys() - used):
            raise PromptError(f"{file}: declares slots {unused} that neither system nor user uses")


def _read(name: str) -> str:
    return _FILES.joinpath(name).read_text(encoding="utf-8")


def _validated(kind: type[ModelT], text: str, file: str) -> ModelT:
    try:
        return kind.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise PromptError(f"{file}: not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise PromptError(f"{file}: {explained(error)}") from error


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
