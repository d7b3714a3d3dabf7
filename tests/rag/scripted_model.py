"""A model whose answers and verdicts are written by hand, over loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import fdarx_core as fdarx
from fdarx_core.rag.index import Answer
from tests.llm.loopback_server import LoopbackServer, text_of

_CLAIM = re.compile(r"<claim>\n(.*?)\n</claim>", re.DOTALL)


class ScriptedModel:
    """Answers questions to an index with a fixed reply, and gives verdicts on its statements.

    `asked` has the requests for verdicts. A statement gets the verdict of the first part of it that `verdicts` has;
    for others the reply cannot be parsed, as those of a model that does not understand the task.
    """

    def __init__(self, server: LoopbackServer, model: fdarx.Model, index: fdarx.Index) -> None:
        server.answer = self._reply
        self._model, self._index = model, index
        self._text, self._verdicts, self._quote = "", dict[str, str](), ""
        self.asked: list[str] = []

    def answer(
        self, text: str, question: str, verdicts: Mapping[str, str] | None = None, *, quote: str = "", **options: Any
    ) -> Answer:
        """Return the answer whose reply is the text, checked with these verdicts, each on the quote; the model is the
        verifier."""
        self._text, self._verdicts, self._quote = text, dict(verdicts or {}), quote
        self.asked.clear()
        answer: Answer = self._index.answer(question, model=self._model, **options)
        return answer

    def _reply(self, body: Mapping[str, Any]) -> str:
        shown = text_of(body["messages"][-1])
        claim = _CLAIM.search(shown)
        if claim is None:
            return self._text
        self.asked.append(shown)
        verdict = next((one for part, one in self._verdicts.items() if part in claim[1]), "none")
        return json.dumps(
            {"verdicts": [{"passage": 1, "reason": "scripted", "quote": self._quote, "verdict": verdict}]}
        )


@contextmanager
def scripted_model(index: fdarx.Index) -> Iterator[ScriptedModel]:
    """Serve a scripted model for questions to an index."""
    with LoopbackServer() as server, fdarx.Model("tiny", base_url=server.openai_url) as model:
        yield ScriptedModel(server, model, index)
