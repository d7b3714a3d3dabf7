"""A task whose reply is plain text: what an evaluated model says, in the form that the model likes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
        prompt = Prompt.load(name)
        if prompt.response != PLAIN_TEXT or prompt.examples:
            raise PromptError(f"prompts/{name}.yaml: a text task has `response: {PLAIN_TEXT}` and no examples")
        return cls(prompt, baseline)

    @property
    def name(self) -> str:
        return self.prompt.name

    @property
    def version(self) -> int:
        return self.prompt.version

    def request(self, slots: Mapping[str, Any], *, endpoint: str, sampling: Mapping[str, Any] | None = None) -> Request:
        """As `Task.request`, without a schema."""
        messages = self.prompt.render(slots)
        request = Request("", self.name, self.version, endpoint, dict(slots), messages, {}, dict(sampling or {}))
        request.key = request_key(request)
        return request

    def parse(self, response: Response) -> str:
        """The reply, without space around it. Raises Unparsable where it is missing, empty or cut short."""
        return complete_text(response)

    def by_rules(self, slots: Mapping[str, Any]) -> str:
        """The baseline's reply."""
        return self.baseline(slots)
