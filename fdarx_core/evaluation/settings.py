"""The settings in which a question is put: which evidence a model is shown, and how much of it there is room for.

Source: FDARxBench §3.4, §B.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.llm.model_config import ModelConfig, estimate_tokens, token_counter
from fdarx_core.records import Passage, QuestionAnswer

CLOSED_BOOK: Final = "closed_book"
FULL_LABEL: Final = "full_label"
ORACLE: Final = "oracle"
RETRIEVED: Final = "retrieved"
SETTINGS: Final = (CLOSED_BOOK, FULL_LABEL, ORACLE, RETRIEVED)

PROMPT_TOKENS = 700
"""Room for all of a prompt but its passages: the rules (under 400 tokens), a question, the chat template."""
_ESTIMATE_ERROR = 1.1
_PART_TOKENS = 2
"""Of the line ends around a passage."""
_UNTITLED = "(untitled)"


def is_due(setting: str, question: QuestionAnswer) -> bool:
    """Whether a question is asked in a setting: one without an answer only where the model is shown where to look."""
    return question.type != "refusal" or setting in (FULL_LABEL, RETRIEVED)


def needs_whole_label(setting: str) -> bool:
    """Whether the gold passages alone are not enough."""
    return setting in (FULL_LABEL, RETRIEVED)


@dataclass(frozen=True)
class TokenBudget:
    """How much evidence goes into a prompt; None is no limit.

    `label_chars` cuts the full label after that many characters, in the middle of a passage if so it falls: the
    published evaluation does it at 16,000. `tokens`, by `counter`, leaves whole passages out from the end.
    """

    label_chars: int | None = None
    tokens: int | None = None
    counter: Callable[[str], int] = estimate_tokens

    @classmethod
    def of(cls, model: ModelConfig | None, label_chars: int | None = None) -> TokenBudget:
        """What is left of a model's context beside its reply and the rest of the prompt; a tenth less if estimated."""
        if model is None or model.context_length is None:
            return cls(label_chars)
        counter, exact = token_counter(model)
        left = max(0, model.context_length - model.max_tokens - PROMPT_TOKENS)
        return cls(label_chars, left if exact else int(left / _ESTIMATE_ERROR), counter)


@dataclass(frozen=True)
class PromptContext:
    """What a model is shown with one question. `cuts` counts the passages that were left out or cut.

    `slots` are those of the setting's task. `numbered` is the one place that says which passage a marker means: the
    number in PASSAGE_0012 is the passage's own within a label, and its place in the prompt, from 1, where passages of
    several labels stand together, since their own numbers may be equal. Empty where no markers are shown.
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
    """What a model is shown with a question: the label's passages, or those ranked for it, as far as there is room.

    The full label is laid out once for all questions that come with the same `subject_passages` object, and is the
    same string for all of them. Raises ValueError for an unknown setting, and where a gold passage is not at hand.
    """
    room = room or TokenBudget()
    if setting == CLOSED_BOOK:
        return PromptContext({"question": question.question})
    if setting == FULL_LABEL:
        label = _laid_out(_Same(subject_passages), room)
        return PromptContext(_asked(question, label=label.text), label.passages, label.cuts, label.numbered)
    if setting == ORACLE:
        kept, cuts = _fitting(_gold(question, subject_passages), room)
        parts = [{"section": _heading(one), "text": one.text} for one in kept]
        return PromptContext(_asked(question, passages=parts), kept, cuts)
    if setting == RETRIEVED:
        return _retrieved(question, ranked, room)
    raise ValueError(f"no setting is called {setting!r}; there are {', '.join(SETTINGS)}")


def marker(number: int) -> str:
    """A passage's name in prompts, as `Passage.marker` writes it."""
    return f"PASSAGE_{number:04d}"


def _retrieved(question: QuestionAnswer, ranked: Sequence[Passage], room: TokenBudget) -> PromptContext:
    kept, cuts = _fitting(ranked, room)
    one_label = {passage.set_id for passage in ranked} <= {question.set_id}
    numbered = {one.doc_chunk_index if one_label else place: one for place, one in enumerate(kept, 1)}
    parts = [{"marker": marker(number), "section": _heading(one), "text": one.text} for number, one in numbered.items()]
    return PromptContext(_asked(question, passages=parts), kept, cuts, numbered)


def _asked(question: QuestionAnswer, **evidence: Any) -> dict[str, Any]:
    return {**evidence, "drug": question.drug_name, "question": question.question}


def _gold(question: QuestionAnswer, passages: Sequence[Passage]) -> list[Passage]:
    wanted = gold_indices(question)
    at_hand = {passage.doc_chunk_index: passage for passage in passages if passage.doc_chunk_index in wanted}
    if missing := [index for index in wanted if index not in at_hand]:
        raise ValueError(
            f"question {question.id} rests on passages {missing} of label {question.set_id}, which are not at hand; "
            "give the label's passages, or leave the setting oracle out"
        )
    return [at_hand[index] for index in wanted]


def _fitting(passages: Sequence[Passage], room: TokenBudget) -> tuple[list[Passage], int]:
    """The first passages that there is room for, and the number of the rest."""
    kept = list(passages)
    if room.tokens is not None:
        kept = kept[: _places([f"{marker(0)} {_heading(one)}\n{one.text}" for one in kept], room.tokens, room.counter)]
    return kept, len(passages) - len(kept)


def _places(parts: Sequence[str], tokens: int, counter: Callable[[str], int]) -> int:
    """How many of the parts, from the first, fit into that many tokens."""
    for place, part in enumerate(parts):
        tokens -= counter(part) + _PART_TOKENS
        if tokens < 0:
            return place
    return len(parts)


@dataclass(frozen=True)
class _Same:
    """Passages as a key: equal if they are the very same object. They are many, and don't change during a run."""

    passages: Sequence[Passage]

    def __hash__(self) -> int:
        return id(self.passages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.passages is other.passages


@dataclass(frozen=True)
class _Label:
    text: str
    passages: list[Passage]
    cuts: int
    numbered: Mapping[int, Passage]


@lru_cache(maxsize=32)
def _laid_out(label: _Same, room: TokenBudget) -> _Label:
    parts = _parts(label.passages)
    kept = parts if room.tokens is None else parts[: _places(parts, room.tokens, room.counter)]
    text = "\n".join(kept)
    limit = len(text) if room.label_chars is None else room.label_chars
    spans = list(zip(label.passages, _spans(kept), strict=False))
    passages = [one for one, (start, _) in spans if start < limit]
    whole = sum(end <= limit for _, (_, end) in spans)
    numbered = {one.doc_chunk_index: one for one in passages}
    return _Label(text[:limit], passages, len(parts) - whole, numbered)


def _parts(passages: Sequence[Passage]) -> list[str]:
    """Each passage below its marker, with its section's titles where they are not those of the passage before."""
    parts, before = [], ""
    for one in passages:
        heading = _heading(one)
        parts.append(f"||{one.marker}||{'' if heading == before else f' {heading}'}\n{one.text}\n")
        before = heading
    return parts


def _spans(parts: Sequence[str]) -> list[tuple[int, int]]:
    """Where each passage's own text starts and ends once line ends join the parts."""
    spans, at = [], 0
    for part in parts:
        spans.append((at + part.index("\n") + 1, at + len(part) - 1))
        at += len(part) + 1
    return spans


def _heading(passage: Passage) -> str:
    """The section's number and titles from the top down."""
    return f"{passage.section_number} {passage.section_path}".strip() or _UNTITLED
