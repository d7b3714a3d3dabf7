"""A task: a prompt, the reply it expects, the rules that answer it without a model, and the keys of its requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Generic, NoReturn, cast

import orjson
from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar

from fdarx_core.llm.prompts import Criteria, Prompt, PromptError, validation_message
from fdarx_core.llm.reply import json_values, without_thoughts
from fdarx_core.records import Request, Response

_BUILT_IN = "baseline"
"""The endpoint of the built-in rules."""
_KEY_FIELDS = tuple(field.name for field in fields(Request) if field.name != "key")
_UNUSABLE_FINISH = {"length": "truncated_reply", "content_filter": "filtered_reply"}
_MIN_DISTINCTIVE_LENGTH = 15
"""A text of at least this length, in characters, that equals an example's text was copied."""
_RULE_FILES = frozenset((".py", ".yaml", ".tsv", ".json"))
_SOURCES = Path(__file__).resolve().parents[2]
"""The folder of the packages of this project; folders in the working directory may have the same names."""

ReplyT = TypeVar("ReplyT", bound="BaseModel | str", default=Any)
"""For a task found by name, the reply type is unknown (Any)."""


class Unparsable(ValueError):
    """A response without a usable reply. `reason` is one of the fixed names below, `detail` describes this case.

    Reasons: failed_request, undecided, empty_reply, truncated_reply, filtered_reply, invalid_json, wrong_shape,
    unclosed_thought, copied_example.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


class Undecided(Exception):
    """Raised by a task's baseline where its rules cannot decide; the argument says why.

    Parsing the response raises Unparsable with the reason `undecided`: the row is unscored and not counted as failed.
    """


UNDECIDED = "undecided"
"""The reason of the response of a baseline that cannot decide. The response is stored."""


def models_only(slots: Mapping[str, Any]) -> NoReturn:
    """Stand for the rules of a task that only a model can answer. Raises ValueError."""
    raise ValueError("only a language model can answer this task; name one")


@dataclass(frozen=True)
class Task(Generic[ReplyT]):
    """A request to a model: its prompt, the schema of its reply, and the baseline's rules.

    Args:
        prompt: the messages, as templates over slots.
        reply: the class of the reply, whose JSON schema goes into the request; `str` for a reply in plain text.
        baseline: answers the task from the slots alone, deterministically; it raises Undecided where it cannot. Only
            models answer a task that has `models_only` here.
    """

    prompt: Prompt
    reply: type[ReplyT]
    baseline: Callable[[Mapping[str, Any]], ReplyT] = models_only

    @classmethod
    def load(
        cls, name: str, reply: type[ReplyT], baseline: Callable[[Mapping[str, Any]], ReplyT] = models_only
    ) -> Task[ReplyT]:
        """Return the task of `prompts/NAME.yaml`, or of the file at a path that ends in .yaml.

        Raises PromptError where the prompt and the reply's class do not fit.
        """
        task = cls(Prompt.load(name), reply, baseline)
        task.check()
        return task

    @property
    def name(self) -> str:
        return self.prompt.name

    @property
    def version(self) -> int:
        return self.prompt.version

    def check(self) -> None:
        """Raise PromptError unless the prompt names this reply's class and its examples have valid replies."""
        file = f"prompts/{self.name}.yaml"
        expected = "text" if self.reply is str else self.reply.__name__
        if self.prompt.response != expected:
            raise PromptError(f"{file}: response is {self.prompt.response!r}, but the task's module reads {expected!r}")
        try:
            _ = self._example_turns
        except ValidationError as error:
            raise PromptError(f"{file}: an example's reply is no {expected}: {validation_message(error)}") from error
        except ValueError as error:
            raise PromptError(f"{file}: an example does not fit: {error}") from error

    def with_criteria(self, criteria: Criteria) -> Task[ReplyT]:
        """Return the task with other criteria; its requests have other keys. Raises PromptError as the prompt does."""
        return replace(self, prompt=self.prompt.with_criteria(criteria))

    def request(self, slots: Mapping[str, Any], *, endpoint: str, sampling: Mapping[str, Any] | None = None) -> Request:
        """Return the request that asks an endpoint this task, with its key.

        Args:
            slots: values that JSON can hold. ValueError names the task, and the slots that are missing or unknown.
            endpoint: the endpoint's name.
            sampling: the endpoint's `sampling`.
        """
        system, user = self.prompt.render(slots)
        messages = [system, *self._example_turns, user]
        schema, parameters = self._schema, dict(sampling or {})
        request = Request("", self.name, self.version, endpoint, dict(slots), messages, schema, parameters)
        model_slots = {name: value for name, value in slots.items() if name not in self.prompt.baseline_slots}
        # What only the built-in rules read is no part of a model's request: the same messages are not sent twice.
        request.key = request_key(request if endpoint == _BUILT_IN else replace(request, slots=model_slots))
        return request

    def parse(self, response: Response) -> ReplyT:
        """Return the reply in a response. Raises Unparsable, whose reason says why there is none.

        Thoughts in tags are left out, and a structured reply may stand in a Markdown code block or between
        sentences. A reply whose texts are all copied from one example of the prompt is none (copied_example).
        """
        text = reply_text(response)
        reply: BaseModel | str = text
        if issubclass(self.reply, BaseModel):
            reply = self._structured(text)
        texts = self._distinctive_texts(reply)
        if texts and any(texts <= example for example in self._example_texts):
            raise Unparsable("copied_example", f"it repeats an example of the prompt: {min(texts)[:120]!r}")
        return cast(ReplyT, reply)

    def _structured(self, text: str) -> BaseModel:
        """Return the reply in a text. Raises Unparsable with the error of the first JSON value found in it."""
        reply_class = cast(type[BaseModel], self.reply)
        try:
            return reply_class.model_validate_json(text)
        except ValidationError as error:
            first_error = error
        if without_thoughts(text) is None:
            raise Unparsable("unclosed_thought", f"it ends with {text[-80:]!r}")
        found = False
        for value in json_values(text):
            try:
                # escapes of unpaired surrogates, which grammars allow and no file can hold, become "?"
                storable = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
                return reply_class.model_validate_json(storable)
            except ValidationError as error:
                if not found:
                    first_error = error
                found = True
            except RecursionError:
                continue
        raise Unparsable("wrong_shape" if found else "invalid_json", validation_message(first_error))

    def by_rules(self, slots: Mapping[str, Any]) -> str:
        """Return the baseline's reply as text, in JSON where it is structured. Raises Undecided as the baseline."""
        reply = self.baseline(slots)
        return reply.model_dump_json() if isinstance(reply, BaseModel) else reply

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return self.reply.model_json_schema() if issubclass(self.reply, BaseModel) else {}

    @cached_property
    def _example_turns(self) -> list[dict[str, str]]:
        def text_of(reply: Any) -> str:
            if issubclass(self.reply, BaseModel):
                return orjson.dumps(self.reply.model_validate(reply).model_dump()).decode()
            if not isinstance(reply, str) or not reply.strip():
                raise ValueError("its reply must be a text")
            return reply.strip()

        return self.prompt.example_turns(text_of)

    @cached_property
    def _example_texts(self) -> list[frozenset[str]]:
        return [self._distinctive_texts(example.reply) for example in self.prompt.examples]

    @cached_property
    def _system_text(self) -> str:
        return _normalized(self.prompt.system)

    def _distinctive_texts(self, reply: Any) -> frozenset[str]:
        """Return the texts of a reply that tell it from others: long ones that are not in the system message.

        Category names and the refusal sentence, which the prompt quotes, do not count.
        """
        return frozenset(text for text in _long_texts(reply) if text not in self._system_text)


def _long_texts(value: Any) -> frozenset[str]:
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, str):
        return frozenset([text]) if len(text := _normalized(value)) >= _MIN_DISTINCTIVE_LENGTH else frozenset()
    if isinstance(value, Mapping):
        value = list(value.values())
    return frozenset().union(*map(_long_texts, value)) if isinstance(value, list) else frozenset()


def _normalized(text: str) -> str:
    return " ".join(text.split()).casefold()


def find_task(name: str) -> Task[Any]:
    """Return the task of a prompt in `prompts/`. Raises PromptError.

    It is looked up among the constants of the module that the prompt names, and in its dicts.
    """
    module = Prompt.load(name).module
    if module:
        defined = list(vars(import_module(module)).values())
        tables = [value.values() for value in defined if isinstance(value, Mapping)]
        for value in chain(defined, *tables):
            if isinstance(value, Task) and value.name == name:
                return value
    raise PromptError(f"prompts/{name}.yaml: module {module!r} defines no task {name}; give the Task itself")


def reply_text(response: Response) -> str:
    """Return a response's text, stripped. Raises Unparsable for a failed or undecided one, and unusable text."""
    if response.reason == UNDECIDED:
        raise Unparsable(UNDECIDED, response.text)
    if response.reason:
        raise Unparsable("failed_request", f"{response.reason}: {response.text}")
    if response.finish_reason in _UNUSABLE_FINISH:
        raise Unparsable(_UNUSABLE_FINISH[response.finish_reason], f"it ends with {response.text[-80:]!r}")
    text = response.text.strip()
    if not text:
        raise Unparsable("empty_reply", f"{len(response.text)} characters, all white space")
    return text


def request_key(request: Request) -> str:
    """Return 32 hexadecimal digits (BLAKE2b, 128 bits) of all fields of a request but its key, as canonical JSON.

    A field added to Request becomes part of the key by itself, so no response is read back for another request. The
    order of keys in slots, schema and sampling does not matter.
    """
    content = {name: getattr(request, name) for name in _KEY_FIELDS}
    try:
        canonical = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise ValueError(
            f"task {request.task}: its slots or sampling hold a value that is not JSON: {error}"
        ) from error
    return blake2b(canonical, digest_size=16).hexdigest()


def source_digest(*modules: str) -> str:
    """Return 16 hexadecimal digits of all .py, .yaml, .tsv and .json files of these modules and packages; imports none.

    It identifies the baseline's rules in the keys of its requests: after a change of a rule, no response of the old
    rule is read back, and no version number has to be raised by hand.
    """
    digest = blake2b(digest_size=8)
    for module in modules:
        root = _SOURCES.joinpath(*module.split("."))
        files = sorted(path for path in root.rglob("*") if path.suffix in _RULE_FILES)
        if not root.is_dir():
            files, root = [root.with_suffix(".py")], root.parent
        for file in files:
            digest.update(f"{module}/{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()
