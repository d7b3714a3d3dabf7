"""What loopback models read in the prompts of a build: the task, the passages and the lines that name something."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from fdarx_core.llm.prompts import Prompt
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.stems import terms
from tests.llm.loopback_server import text_of

WRITING = ("generate_factual", "generate_multihop")
READING = ("round_trip_answer", "compare_answers")
JUDGING = (
    "judge_relevance",
    "judge_support_factual",
    "judge_support_multihop",
    "judge_support_refusal",
    "judge_quality_factual",
    "judge_quality_multihop",
    "judge_quality_refusal",
)
TASKS = (*WRITING, *READING, *JUDGING)

_PASSAGE = re.compile(
    r"<passage(?:_[ab])?(?: number=\"(?P<number>\d+)\")? section=\"(?P<section>[^\n]*?)\"(?: table=\"[^\"\n]*\")?>\n"
    r"(?P<text>.*?)\n</passage",
    re.S,
)
_ANSWER = re.compile(r"<answer name=\"(.*?)\">\n(.*?)\n</answer>", re.S)
_LABEL = "\nThe label:\n"
"""What follows it in the prompt for the whole label is not an example."""


@dataclass(frozen=True, slots=True)
class ShownSentence:
    """A sentence of a passage with its terms; `passage` is the position of the passage, `number` its stated number."""

    text: str
    terms: frozenset[str]
    passage: int
    number: int


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """The prompt of one request of a build."""

    task: str
    system: str
    user: str

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> ShownPrompt:
        """Read the body of a request. Raises KeyError for the prompt of another job."""
        system, user = text_of(body["messages"][0]), text_of(body["messages"][-1])
        return cls(_task_by_opening()[_opening(system)], system, user)

    @property
    def drug(self) -> str:
        return self.line("Product") or self.line("Drug")

    @property
    def sections(self) -> list[str]:
        return [found["section"] for found in _PASSAGE.finditer(self.user)]

    @property
    def passages(self) -> list[str]:
        """The texts of the passages in the last message."""
        return [found["text"] for found in _PASSAGE.finditer(self.user)]

    @property
    def sentences(self) -> tuple[ShownSentence, ...]:
        """The sentences of all passages, which stand before the question or in the same message."""
        return _sentences(self.system.rpartition(_LABEL)[2]) or _sentences(self.user)

    @property
    def answers(self) -> list[tuple[str, str]]:
        """The answers to compare, each with its name."""
        return _ANSWER.findall(self.user)

    def line(self, name: str) -> str:
        """Return what follows a name and a colon on a line, "" without such a line."""
        found = re.search(rf"^{re.escape(name)}: (.*)$", self.user, re.M)
        return found[1].strip() if found else ""

    def asked_terms(self) -> frozenset[str]:
        """Return the terms of the question without those of the drug's name and of asking."""
        question = self.line("Question").replace(self.drug, " ")
        return terms(question) - terms(self.drug) - ASKING


ASKING = terms(
    "What value does the label of give for with How large figure in Which number describes when considered say relate "
    "to patients who take should prescribers know about known statement on applies given happens considering bear "
    "follows links use why matter stated labeling"
)
"""Words with which anything is asked about; a reader does not look for them."""


@lru_cache(maxsize=256)
def _sentences(text: str) -> tuple[ShownSentence, ...]:
    return tuple(
        ShownSentence(sentence, terms(sentence), at, int(found["number"] or at))
        for at, found in enumerate(_PASSAGE.finditer(text))
        for sentence in split_sentences(found["text"])
    )


@cache
def _task_by_opening() -> dict[str, str]:
    found = {_opening(Prompt.load(name).system): name for name in TASKS}
    assert len(found) == len(TASKS), "two prompts begin with the same line"
    return found


def _opening(system: str) -> str:
    return system.lstrip().partition("\n")[0]
