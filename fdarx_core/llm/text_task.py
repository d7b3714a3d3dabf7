"""A task whose reply is plain text: what an evaluated model says, in the form that the model likes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fdarx_core.llm.keys import request_key
from fdarx_core.llm.prompts import Prompt, PromptError
from fdarx_core.llm.task import complete_text
from fdarx_core.records import Request, Response

PLAIN_TEXT = "text"
"""What a prompt's `response` says where no schema holds the reply."""


@dataclass(frozen=True)
class TextTask:
    """One thing to ask a model in free text. `baseline` answers it from the slots alone, deterministically."""

    prompt: Prompt
    baseline: Callable[[Mapping[str, Any]], str]

    @classmethod
    def load(cls, name: str, baseline: Callable[[Mapping[str, Any]], str]) -> TextTask:
        """The task of `prompts/NAME.yaml`. Raises PromptError where the prompt asks for anything but plain text."""
        task = cls(Prompt.load(name), baseline)
        task.check()
        return task

    @property
    def name(self) -> str:
        return self.prompt.name

    @property
    def version(self) -> int:
        return self.prompt.version

    def check(self) -> None:
        """Raises PromptError unless the prompt asks for plain text and its examples are answered in it."""
        file = f"prompts/{self.name}.yaml"
        if self.prompt.response != PLAIN_TEXT:
            raise PromptError(f"{file}: response is {self.prompt.response!r}; a text task has `response: {PLAIN_TEXT}`")
        if not all(isinstance(example.reply, str) and example.reply.strip() for example in self.prompt.examples):
            raise PromptError(f"{file}: an example's reply is no text, as a text task's are")
        try:
            _ = self._examples
        except ValueError as error:
            raise PromptError(f"{file}: an example's slots don't fit: {error}") from error

    def request(self, slots: Mapping[str, Any], *, endpoint: str, sampling: Mapping[str, Any] | None = None) -> Request:
        """As `Task.request`, without a schema."""
        system, user = self.prompt.render(slots)
        messages = [system, *self._examples, user]
        request = Request("", self.name, self.version, endpoint, dict(slots), messages, {}, dict(sampling or {}))
        request.key = request_key(request)
        return request

    def parse(self, response: Response) -> str:
        """The reply, without space around it. Raises Unparsable where it is missing, empty or cut short."""
        return complete_text(response)

    def by_rules(self, slots: Mapping[str, Any]) -> str:
        """The baseline's reply."""
        return self.baseline(slots)

    @cached_property
    def _examples(self) -> list[dict[str, str]]:
        return self.prompt.turns(str.strip)
