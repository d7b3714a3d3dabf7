"""The rules that every question must pass, each with the name it is counted by. Source: FDARxBench §B.4, stage 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fdarx_core.filters.conjunction import artificial_conjunction
from fdarx_core.filters.malformed import malformed_answer, malformed_question
from fdarx_core.filters.text import names, overlap, stands_in
from fdarx_core.records import QuestionAnswer

QUESTION_LENGTH = (10, 200)
ANSWER_LENGTH = (5, 600)
"""Characters, both bounds allowed."""
MIN_OVERLAP = 0.10
"""Share of the answer's content words."""


@dataclass(slots=True)
class Evidence:
    """What a question is held against.

    `drug_names` are the label's aliases; `contexts` the texts of the question's gold passages, position by position;
    `label_text`, for refusal questions, everything the label says, Highlights and tables included.
    """

    drug_names: list[str]
    contexts: list[str] = field(default_factory=list)
    label_text: str = ""


Check = Callable[[QuestionAnswer, Evidence], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """`check` gives None for a question that may stay, or what is wrong with it, for a person to read."""

    name: str
    check: Check


def first_failure(question: QuestionAnswer, evidence: Evidence) -> tuple[str, str] | None:
    """The first of `RULES` that the question breaks, as (name, what is wrong); None when it passes all."""
    for rule in RULES:
        if (detail := rule.check(question, evidence)) is not None:
            return rule.name, detail
    return None


def missing_field(question: QuestionAnswer, evidence: Evidence) -> str | None:
    held = {name: getattr(question, name).strip() for name in ("id", "set_id", "drug_name", "question", "answer")}
    if question.type == "refusal":
        held |= {"entity": question.entity.strip(), "label text": evidence.label_text.strip()}
    else:
        contexts = [context for context in evidence.contexts if context.strip()]
        held["context"] = len(contexts) >= (2 if question.type == "multihop" else 1)
    missing = [name for name, value in held.items() if not value]
    return f"no {', '.join(missing)}" if missing else None


def malformed(question: QuestionAnswer, evidence: Evidence) -> str | None:
    return malformed_question(question.question) or malformed_answer(question.answer)


def drug_not_named(question: QuestionAnswer, evidence: Evidence) -> str | None:
    if any(names(question.question, name) for name in (question.drug_name, *evidence.drug_names)):
        return None
    return f"neither {question.drug_name!r} nor one of its {len(evidence.drug_names)} names is in the question"


def question_length(question: QuestionAnswer, evidence: Evidence) -> str | None:
    return _outside(len(question.question), QUESTION_LENGTH)


def answer_length(question: QuestionAnswer, evidence: Evidence) -> str | None:
    return _outside(len(question.answer), ANSWER_LENGTH)


def joined_questions(question: QuestionAnswer, evidence: Evidence) -> str | None:
    if question.type != "multihop":
        return None
    return artificial_conjunction(question.question, [question.drug_name, *evidence.drug_names], evidence.contexts)


def low_overlap(question: QuestionAnswer, evidence: Evidence) -> str | None:
    """All contexts together count for factual questions, each by itself for multi-hop ones."""
    if question.type == "refusal":
        return None
    contexts = evidence.contexts if question.type == "multihop" else ["\n".join(evidence.contexts)]
    shares = [overlap(question.answer, context) for context in contexts]
    lowest = min(shares, default=0.0)
    return f"{lowest:.3f} of the answer's words in context {shares.index(lowest) + 1}" if lowest < MIN_OVERLAP else None


def entity_not_named(question: QuestionAnswer, evidence: Evidence) -> str | None:
    if question.type != "refusal" or stands_in(question.entity, question.question):
        return None
    return f"{question.entity!r} is not in the question"


def entity_present(question: QuestionAnswer, evidence: Evidence) -> str | None:
    if question.type != "refusal" or not stands_in(question.entity, evidence.label_text):
        return None
    return f"{question.entity!r} is in the label"


RULES: tuple[Rule, ...] = (
    Rule("missing_field", missing_field),
    Rule("malformed", malformed),
    Rule("drug_not_named", drug_not_named),
    Rule("question_length", question_length),
    Rule("answer_length", answer_length),
    Rule("artificial_conjunction", joined_questions),
    Rule("low_overlap", low_overlap),
    Rule("entity_not_named", entity_not_named),
    Rule("entity_present", entity_present),
)
"""In the order in which they are tried: a question counts under the first that it breaks."""


def _outside(length: int, bounds: tuple[int, int]) -> str | None:
    low, high = bounds
    return None if low <= length <= high else f"{length} characters, {low} to {high} allowed"
