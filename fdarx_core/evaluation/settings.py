"""The settings of an evaluation: which evidence the prompt of a question has, within the token budget.

Source: FDARxBench §3.4, §B.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.llm.model_config import ModelConfig, estimate_tokens, tokens_left
from fdarx_core.records import Passage, QuestionAnswer

CLOSED_BOOK: Final = "closed_book"
FULL_LABEL: Final = "full_label"
ORACLE: Final = "oracle"
RETRIEVED: Final = "retrieved"
SETTINGS: Final = (CLOSED_BOOK, FULL_LABEL, ORACLE, RETRIEVED)
REFERENCE: Final = "reference"
GIVEN_CONTEXT: Final = "given_context"
"""The settings of a graded file: answers graded against references, and judged by the contexts of their rows."""

PROMPT_TOKENS = 700
"""Tokens of a prompt without its passages: the rules (under 400 tokens), a question, the chat template."""
_PART_TOKENS = 2
"""Tokens of the line ends around a passage."""
_UNTITLED = "(untitled)"


def is_due(setting: str, question: QuestionAnswer) -> bool:
    """Return whether a question is asked in a setting; refusal questions need passages that can be searched."""
    return question.answerable or setting in (FULL_LABEL, RETRIEVED)


def needs_whole_label(setting: str) -> bool:
    """Return whether a setting needs more than the gold passages."""
    return setting in (FULL_LABEL, RETRIEVED)


@dataclass(frozen=True)
class TokenBudget:
    """Limits of the evidence in a prompt; None is no limit.

    `label_chars` cuts the full label after that many characters, also within a passage, as the published evaluation
    does at 16,000. `tokens`, counted by `counter`, leaves out whole passages from the end.
    """

    label_chars: int | None = None
    tokens: int | None = None
    counter: Callable[[str], int] = estimate_tokens

    @classmethod
    def of(cls, model: ModelConfig | None, label_chars: int | None = None) -> TokenBudget:
        """Return the rest of the context of a model after reply and prompt; a tenth less if tokens are estimated."""
        tokens, counter = tokens_left(model, PROMPT_TOKENS)
        return cls(label_chars) if tokens is None else cls(label_chars, tokens, counter)


@dataclass(frozen=True)
class PromptContext:
    """The evidence of one question. `cuts` counts the passages that were left out or cut.

    `slots` are those of the task of the setting. `numbered` gives the passage of each marker: the number of a marker
    is the doc_chunk_index within one label; for passages of several labels, whose indices may be equal, it is the
    position in the prompt, from 1. It is empty without markers.
    """

    slots: dict[str, Any]
    passages: list[Passage] = field(default_factory=list)
    cuts: int = 0
    numbered: Mapping[int, Passage] = field(default_factory=dict)


def prompt_context(
    setting: str,
    question: QuestionAnswer,
    subject_passages: Sequence[Passage],
    ranked: Sequence[Passage] = (),
    room: TokenBudget | None = None,
) -> PromptContext:
    """Return the evidence of a question: passages of the label, or those ranked for it, within the token budget.

    The full label is formatted once for all questions with the same `subject_passages` object, and is the same string
    for all of them. Raises ValueError for an unknown setting, and if a gold passage is missing.
    """
    room = room or TokenBudget()
    if setting == CLOSED_BOOK:
        return PromptContext({"question": question.question})
    if setting == FULL_LABEL:
        text, kept, cuts, numbered = _full_label(_SameObject(subject_passages), room)
        return PromptContext(_slots(question, label=text), kept, cuts, numbered)
    if setting == ORACLE:
        wanted = gold_indices(question)
        by_index = {
            passage.doc_chunk_index: passage for passage in subject_passages if passage.doc_chunk_index in wanted
        }
        if missing := [index for index in wanted if index not in by_index]:
            raise ValueError(
                f"question {question.id} has gold passages {missing} of label {question.set_id}, which are missing; "
                "give the passages of the label, or leave out the setting oracle"
            )
        kept, cuts = _fitting([by_index[index] for index in wanted], room)
        parts = [{"section": _heading(passage), "text": passage.text} for passage in kept]
        return PromptContext(_slots(question, passages=parts), kept, cuts)
    if setting == RETRIEVED:
        kept, cuts = _fitting(ranked, room)
        one_label = {passage.set_id for passage in ranked} <= {question.set_id}
        numbered = {passage.doc_chunk_index if one_label else place: passage for place, passage in enumerate(kept, 1)}
        parts = [
            {"marker": marker(number), "section": _heading(passage), "text": passage.text}
            for number, passage in numbered.items()
        ]
        return PromptContext(_slots(question, passages=parts), kept, cuts, numbered)
    raise ValueError(f"no setting is called {setting!r}; there are {', '.join(SETTINGS)}")


def marker(number: int) -> str:
    """Return the marker of a passage in prompts, as `Passage.marker` does."""
    return f"PASSAGE_{number:04d}"


def _slots(question: QuestionAnswer, **evidence: Any) -> dict[str, Any]:
    return {**evidence, "drug": question.drug_name, "question": question.question}


def _fitting(passages: Sequence[Passage], room: TokenBudget) -> tuple[list[Passage], int]:
    """Return the first passages that fit, and the number of the others."""
    if room.tokens is None:
        return list(passages), 0
    parts = [f"{marker(0)} {_heading(passage)}\n{passage.text}" for passage in passages]
    kept = passages[: _count_fitting(parts, room.tokens, room.counter)]
    return list(kept), len(passages) - len(kept)


def _count_fitting(parts: Sequence[str], tokens: int, counter: Callable[[str], int]) -> int:
    """Return the number of parts, from the first, that fit into the tokens."""
    for place, part in enumerate(parts):
        tokens -= counter(part) + _PART_TOKENS
        if tokens < 0:
            return place
    return len(parts)


@dataclass(frozen=True)
class _SameObject:
    """Passages as a key of a cache: equal if they are the same object. They do not change during a run."""

    passages: Sequence[Passage]

    def __hash__(self) -> int:
        return id(self.passages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameObject) and self.passages is other.passages


@lru_cache(maxsize=32)
def _full_label(label: _SameObject, room: TokenBudget) -> tuple[str, list[Passage], int, Mapping[int, Passage]]:
    """Return text, passages, cuts and numbered passages of the full label."""
    parts, spans, at, before = list[str](), list[tuple[int, int]](), 0, ""
    for passage in label.passages:
        heading = _heading(passage)
        # the titles of the section where they differ from those before
        lead = f"||{passage.marker}||{'' if heading == before else f' {heading}'}\n"
        parts.append(f"{lead}{passage.text}\n")
        spans.append((at + len(lead), at + len(parts[-1]) - 1))
        at, before = at + len(parts[-1]) + 1, heading
    fitting = len(parts) if room.tokens is None else _count_fitting(parts, room.tokens, room.counter)
    text = "\n".join(parts[:fitting])
    limit = len(text) if room.label_chars is None else room.label_chars
    passages = [passage for passage, (start, _) in zip(label.passages, spans[:fitting], strict=False) if start < limit]
    whole = sum(end <= limit for _, end in spans[:fitting])
    return text[:limit], passages, len(parts) - whole, {passage.doc_chunk_index: passage for passage in passages}


def _heading(passage: Passage) -> str:
    """Return the number of the section and its titles from the top down."""
    return f"{passage.section_number} {passage.section_path}".strip() or _UNTITLED
