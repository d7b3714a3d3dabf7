"""Prompts: one YAML file per task, which is checked when it is loaded, before any request is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import orjson
import yaml
from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from fdarx_core.records import content_id
from fdarx_core.wording import fault_text

_JINJA = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_FILES = Path(__file__).resolve().parents[2] / "prompts"
"""Beside this package: a folder `prompts` in the working directory would be imported in the place of ours."""
_CRITERIA = "criteria.yaml"
_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Reads by libyaml, if PyYAML was built with it, which is eight times faster."""

ModelT = TypeVar("ModelT", bound=BaseModel)


class PromptError(ValueError):
    """A prompt file that cannot be used. The message names the file, the field and what is wrong with it."""


class Example(BaseModel):
    """A worked example, sent as an earlier turn: the slots of an invented case, and the reply that it should get.

    `reply` holds the fields of the reply's class, or a text where the task's reply is plain text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    slots: dict[str, Any]
    reply: dict[str, Any] | str


class Criterion(BaseModel):
    """One rule of a domain expert, and the names of the tasks whose prompts include it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z_]+$")
    text: str = Field(min_length=1)
    applies_to: list[str] = Field(min_length=1)


class Criteria(BaseModel):
    """The experts' rules for good questions: `prompts/criteria.yaml`, or a user's file that replaces it.

    Source: FDARxBench §3.2, expert feedback loop.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    purpose: str
    rules: list[Criterion]

    @classmethod
    @cache
    def load(cls) -> Criteria:
        """Return the project's criteria, read once. Raises PromptError where the file is wrong."""
        return cls.from_yaml(_FILES.joinpath(_CRITERIA).read_text(encoding="utf-8"))

    @classmethod
    def from_yaml(cls, text: str, file: str = f"prompts/{_CRITERIA}") -> Criteria:
        """Parse criteria. Raises PromptError where two have the same id, or one names a task that does not exist."""
        criteria = _validated(cls, text, file)
        ids = [rule.id for rule in criteria.rules]
        if twice := sorted({rule for rule in ids if ids.count(rule) > 1}):
            raise PromptError(f"{file}: rules of the same id: {twice}")
        named = {name for rule in criteria.rules for name in rule.applies_to}
        if unknown := sorted(name for name in named if not _FILES.joinpath(f"{name}.yaml").is_file()):
            raise PromptError(f"{file}: rules apply to {unknown}, which are not prompts")
        return criteria

    def for_task(self, name: str) -> str:
        """Return the rules of one task as a list, one line `- [id] text` per rule; "" if none applies."""
        return "\n".join(f"- [{rule.id}] {rule.text}" for rule in self.rules if name in rule.applies_to)


class Prompt(BaseModel):
    """The prompt of a task. `slots` describes each input; `response` names the reply's class, or is `text`.

    `baseline_slots` describes inputs that are not part of the prompt, which only the built-in rules read.

    `system` and `user` are Jinja2 templates over the slots and, where criteria apply to the task, `criteria`. The
    criteria are not a slot, but they are in the messages and so in each request's key. The examples are sent as turns
    before the user message, unless `system` shows them itself: it may use `examples`, each with its `slots` and the
    text of its `reply`. A prompt does so whose `system` ends with a text that many questions are about. `module` is
    where the task is defined. Raise `version` with every change of the prompt: it is part of the key too, and responses
    to another version are not read back.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    version: int = Field(ge=1)
    purpose: str = Field(min_length=1)
    module: str = ""
    slots: dict[str, str] = Field(min_length=1)
    baseline_slots: dict[str, str] = Field(default_factory=dict)
    system: str = Field(min_length=1)
    user: str = Field(min_length=1)
    response: str = Field(min_length=1)
    examples: list[Example] = Field(default_factory=list)
    _criteria: str = PrivateAttr(default="")
    _system_shows_examples: bool = PrivateAttr(default=False)

    @classmethod
    def load(cls, name: str) -> Prompt:
        """Load `prompts/NAME.yaml`, or the file at a path that ends in .yaml. Raises PromptError."""
        own = name.endswith(".yaml")
        file, source = (name, Path(name)) if own else (f"prompts/{name}.yaml", _FILES.joinpath(f"{name}.yaml"))
        name = Path(name).stem if own else name
        try:
            text = source.read_text(encoding="utf-8")
        except (FileNotFoundError, IsADirectoryError):
            raise PromptError(f"{file}: no such prompt; a prompt is a file of its task's name") from None
        prompt = cls.from_yaml(text, file, "" if own else Criteria.load().for_task(name))
        if prompt.name != name:
            raise PromptError(f"{file}: its name is {prompt.name!r}; name the file after it, or correct the name")
        return prompt

    @classmethod
    def from_yaml(cls, text: str, file: str, criteria: str = "") -> Prompt:
        """Parse a prompt. `file` is its name in errors, `criteria` the list of rules that it must include."""
        prompt = _validated(cls, text, file)
        prompt._criteria = criteria
        prompt._check_slots(file)
        return prompt

    @property
    def has_criteria(self) -> bool:
        """Whether the prompt includes experts' criteria."""
        return bool(self._criteria)

    @property
    def digest(self) -> str:
        """A hash of the prompt and its criteria."""
        return content_id(self.model_dump_json(), self._criteria)

    def with_criteria(self, criteria: Criteria) -> Prompt:
        """Return the prompt with other criteria. Raises PromptError if it includes none, or if none of them apply."""
        prompt = self.model_copy()
        prompt._criteria = criteria.for_task(self.name)
        prompt._check_slots(f"prompts/{self.name}.yaml")
        return prompt

    def render(self, slots: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return the system and the user message. Raises ValueError unless the slots are exactly those declared."""
        declared = self.slots.keys() | self.baseline_slots.keys()
        if slots.keys() != declared:
            missing, unknown = sorted(declared - slots.keys()), sorted(slots.keys() - declared)
            raise ValueError(f"task {self.name}: missing slots {missing}, unknown slots {unknown}")
        examples = [
            {
                "slots": example.slots,
                "reply": example.reply if isinstance(example.reply, str) else orjson.dumps(example.reply).decode(),
            }
            for example in self.examples
        ]
        values = {**slots, "criteria": self._criteria, "examples": examples}
        try:
            system, user = _render(self.system, values), _render(self.user, values)
        except TemplateError as error:
            raise ValueError(f"task {self.name}: its prompt could not be rendered: {error}") from error
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]

    def example_turns(self, reply_text: Callable[[Any], str]) -> list[dict[str, str]]:
        """Return the examples as turns of user and assistant, none where the system message shows them.

        Raises ValueError as `render` and `reply_text` do.

        Args:
            reply_text: returns the text of an example's reply.
        """
        turns = []
        for example in self.examples:
            turns.append(self.render(example.slots)[-1])
            turns.append({"role": "assistant", "content": reply_text(example.reply)})
        return [] if self._system_shows_examples else turns

    def _check_slots(self, file: str) -> None:
        used: set[str] = set()
        for field in ("system", "user"):
            try:
                names = meta.find_undeclared_variables(_JINJA.parse(getattr(self, field)))
            except TemplateError as error:
                raise PromptError(f"{file}: {field} is not a Jinja2 template: {error}") from error
            self._system_shows_examples |= field == "system" and "examples" in names
            used |= names
        if "examples" in self.slots:
            raise PromptError(f"{file}: {{{{ examples }}}} is no slot; it stands for the prompt's own examples")
        if "criteria" in self.slots or ("criteria" in used) != bool(self._criteria):
            raise PromptError(
                f"{file}: {{{{ criteria }}}} is no slot; only the prompts that criteria.yaml names must use it"
            )
        if undeclared := sorted(used - self.slots.keys() - {"criteria", "examples"}):
            raise PromptError(f"{file}: uses {undeclared}, not declared under slots")
        if unused := sorted(self.slots.keys() - used):
            raise PromptError(f"{file}: declares slots {unused} that neither system nor user uses")


def validation_message(error: ValidationError) -> str:
    """Return pydantic's errors on one line, `field.path: what is wrong; …`, without the input itself."""
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'content'}: {fault_text(one)}" for one in error.errors())


def _validated(kind: type[ModelT], text: str, file: str) -> ModelT:
    try:
        return kind.model_validate(yaml.load(text, Loader=_YAML))
    except yaml.YAMLError as error:
        raise PromptError(f"{file}: not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise PromptError(f"{file}: {validation_message(error)}") from error


def _render(source: str, slots: Mapping[str, Any]) -> str:
    """Render a template. Jinja's own `render` builds its globals each time, which takes longer than the rest."""
    compiled = _template(source)
    return "".join(compiled.root_render_func(compiled.new_context(dict(slots), shared=True)))


@cache
def _template(source: str) -> Template:
    """Return the compiled template of a source. It is cached by text: prompts can be pickled, templates cannot."""
    return _JINJA.from_string(source)
