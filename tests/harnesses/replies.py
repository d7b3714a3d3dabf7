"""A model whose replies are of many kinds, and a judge whose verdicts differ, as functions of their prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.records import QuestionAnswer
from tests.llm.loopback_server import Call, Fault, text_of

GRADES = ("CORRECT", "CORRECT", "INCORRECT", "NOT_ATTEMPTED")


def answers_of(questions: Sequence[QuestionAnswer]) -> Callable[[Mapping[str, Any]], str]:
    """Return the function that answers a request: as the judge where a schema is asked for, else as the model."""
    by_text = {one.question: one for one in questions}

    def answer(body: Mapping[str, Any]) -> str:
        prompt, choice = _prompt(body), _choice(body)
        if "response_format" in body:
            return json.dumps({"reason": "A reason.", "grade": GRADES[choice % len(GRADES)]})
        asked = re.findall(r"^Question: (.*)$", prompt, re.MULTILINE)[-1]
        return _reply(by_text[asked], choice % 8)

    return answer


def cut_short(call: Call) -> Fault | None:
    """Some replies of the model `small` are cut short, as at the limit of tokens."""
    return Fault(finish_reason="length") if call.body["model"] == "small" and _choice(call.body) % 11 == 0 else None


def _prompt(body: Mapping[str, Any]) -> str:
    return "\n".join(text_of(message) for message in body["messages"])


def _choice(body: Mapping[str, Any]) -> int:
    """Return a number below 256 that the prompt determines."""
    return blake2b(_prompt(body).encode(), digest_size=1).digest()[0]


def _reply(question: QuestionAnswer, kind: int) -> str:
    gold = ", ".join(f"PASSAGE_{index:04d}" for index in gold_indices(question))
    answer = question.answer
    return [
        f"{answer}\nCITED_PASSAGES: [{gold}]",
        f"{answer} Ask a pharmacist as well.\nCITED_PASSAGES: [{gold}, PASSAGE_0001]",
        "Take 987 mg once daily, and repeat this for as long as it is needed, but for no longer than a week. " * 3
        + "\nCITED_PASSAGES: [PASSAGE_0000]",
        "NOT_ANSWERABLE\nCITED_PASSAGES: []",
        "I do not know what the label says.",
        json.dumps({"answer": answer, "citations": [f"PASSAGE_{index:04d}" for index in gold_indices(question)]}),
        "CITED_PASSAGES: [PASSAGE_0002]",
        answer,
    ][kind]
