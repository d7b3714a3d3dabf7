"""A task: a prompt, the reply it expects, and the rules that answer it where no model does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from fdarx_core.llm.keys import request_key
from fdarx_core.llm.prompts import Criteria, Prompt, PromptError, explained
from fdarx_core.records import Request, Response


class Reply(BaseModel):
    """What a task's replies extend: no fields beyond those declared, and no space around text."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


ReplyT = TypeVar("ReplyT", bound=BaseModel)

_CUT_SHORT = {"length": "truncated_reply", "content_filter": "filtered_reply"}
_FENCED = re.compile(r"^```(?:json)?\s*\n(.*?)\n?\s*```$", re.DOTALL | re.IGNORECASE)


class Unparsable(ValueError):
    """A response without a usable reply. `reason` is a fixed name to count by, `detail` what was wrong with this one.

    Reasons: failed_request, empty_reply, truncated_reply, filtered_reply, invalid_json, wrong_shape.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Task(Generic[ReplyT]):
    """One thing to ask a model. `baseline` answers it from the slots alone, deterministically."""

    prompt: Prompt
    reply: type[ReplyT]
    baseline: Callable[[Mapping[str, Any]], ReplyT]

    @classmethod
    def load(cls, name: str, reply: type[ReplyT], baseline: Callable[[Mapping[str, Any]], ReplyT]) -> Task[ReplyT]:
        """The task of `prompts/NAME.yaml`. Raises PromptError where the prompt and the reply's class don't fit."""
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
        """Raises PromptError unless the prompt names this reply's class and its examples are answered in its shape."""
        file, expected = f"prompts/{self.name}.yaml", self.reply.__name__
        if self.prompt.response != expected:
            raise PromptError(f"{file}: response is {self.prompt.response!r}, but the task's module reads {expected}")
        try:
            _ = self._examples
        except ValidationError as error:
            raise PromptError(f"{file}: an example's reply is no {expected}: {explained(error)}") from error
        except ValueError as error:
            raise PromptError(f"{file}: an example's slots don't fit: {error}") from error

    def with_criteria(self, criteria: Criteria) -> Task[ReplyT]:
        """The same task by other criteria; its requests have other keys. Raises PromptError as the prompt does."""
        return replace(self, prompt=self.prompt.with_criteria(criteria))

    def request(self, slots: Mapping[str, Any], *, endpoint: str, sampling: Mapping[str, Any] | None = None) -> Request:
        """The request that asks this of `endpoint`, key included. `sampling` is the endpoint's own.

        Slot values are whatever JSON holds. Raises ValueError naming the task and the slots where they don't fit.
        """
        system, user = self.prompt.render(slots)
        messages = [system, *self._examples, user]
        request = Request(
            "", self.name, self.version, endpoint, dict(slots), messages, self._schema, dict(sampling or {})
        )
        request.key = request_key(request)
        return request

    def parse(self, response: Response) -> ReplyT:
        """The reply in a response. Raises Unparsable, whose reason says why there is none."""
        return self._read(complete_text(response))

    def by_rules(self, slots: Mapping[str, Any]) -> str:
        """The baseline's reply, as JSON."""
        return self.baseline(slots).model_dump_json()

    def _read(self, text: str) -> ReplyT:
        try:
            return self.reply.model_validate_json(unfenced(text))
        except ValidationError as error:
            not_json = error.errors()[0]["type"] == "json_invalid"
            raise Unparsable("invalid_json" if not_json else "wrong_shape", explained(error)) from None

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return self.reply.model_json_schema()

    @cached_property
    def _examples(self) -> list[dict[str, str]]:
        return self.prompt.turns(lambda reply: orjson.dumps(self.reply.model_validate(reply).model_dump()).decode())


def complete_text(response: Response) -> str:
    """A response's text without space around it. Raises Unparsable where asking failed, or it is empty or cut short."""
    if response.reason:
        raise Unparsable("failed_request", f"{response.reason}: {response.text}")
    if response.finish_reason in _CUT_SHORT:
        raise Unparsable(_CUT_SHORT[response.finish_reason], f"it ends with {response.text[-80:]!r}")
    text = response.text.strip()
    if not text:
        raise Unparsable("empty_reply", f"{len(response.text)} characters, all white space")
    return text


def unfenced(text: str) -> str:
    """A reply without the Markdown fence that models like to put around JSON."""
    fenced = _FENCED.match(text)
    return fenced[1] if fenced else text
