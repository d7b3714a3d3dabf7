"""Questions in a conversation: from the earlier turns and a new question to a question that stands alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fdarx_core.labels.drugs import Mention
from fdarx_core.llm import Unparsable
from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.flow import RetrievalResult
from fdarx_core.rag.search import RagBackend
from fdarx_core.rag.tasks import STANDALONE_QUESTION
from fdarx_core.records import Response

TURNS = 10
"""How many turns before the question are read, the latest ones."""
_CHARACTERS = 1_000
"""How much of each earlier question and answer is read."""


class Turn(NamedTuple):
    """An earlier question of a conversation with its answer, "" where it has none."""

    question: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class StandaloneQuestion:
    """A question that needs no earlier turns.

    Attributes:
        text: the question.
        missing: why the model that plays the rewriter did not write it, a line; none if it did, or if no model was
            asked. The question is then as it was asked.
        responses: the response of that model.
        seconds: the time that it took.
    """

    text: str
    missing: list[str] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)
    seconds: float = 0.0

    def add_to(self, result: RetrievalResult) -> None:
        """Count the rewriting as a part of the retrieval."""
        result.missing[:0] = self.missing
        result.rewritten[:0] = self.responses
        result.seconds["rewrite"] = result.seconds.get("rewrite", 0.0) + self.seconds


async def standalone_question(question: str, history: Sequence[Turn], backend: RagBackend) -> StandaloneQuestion:
    """Rewrite a question so that it can be searched with and answered without the earlier turns.

    Args:
        question: the question as it was asked.
        history: the earlier turns, oldest first; the last `TURNS` are read. Without any the question stays as it is.
        backend: finds the names of drugs, and asks the model that plays the rewriter. Without a model, and where it has
            no usable reply, the question stays as it is.

    Raises what the backend raises.
    """
    turns = [Turn(turn.question[:_CHARACTERS], turn.answer[:_CHARACTERS]) for turn in history[-TURNS:]]
    if not turns or backend.answerer == BASELINE:
        return StandaloneQuestion(question)
    start = time.monotonic()
    found = await backend.find_drugs([text for turn in turns for text in turn] + [question])
    names = [[_slot(mention) for mention in mentions] for mentions in found]
    earlier = [
        {**turn._asdict(), "names": asked, "answer_names": answered}
        for turn, asked, answered in zip(turns, names[::2], names[1::2], strict=False)
    ]
    slots = {"history": earlier, "question": question, "names": names[-1]}
    [response] = await backend.ask("rewriter", [(STANDALONE_QUESTION, slots)])
    missing = list[str]()
    try:
        text = STANDALONE_QUESTION.parse(response).question
    except Unparsable as error:
        missing.append(f"{STANDALONE_QUESTION.name}: {error.reason}: {error.detail}")
        text = question
    return StandaloneQuestion(text, missing, [response], time.monotonic() - start)


def _slot(mention: Mention) -> dict[str, Any]:
    """Return the mention of a drug for the prompt; a misspelt name is given as labels write it."""
    text = mention.text if mention.exact else mention.name
    return {"text": text, "start": mention.start, "end": mention.end, "drug": " + ".join(mention.moieties)}
