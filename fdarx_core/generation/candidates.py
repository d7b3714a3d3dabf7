"""Replies to questions: what each task's answer becomes, with its gold passages and where it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fdarx_core.generation.contexts import Context
from fdarx_core.generation.highlights import highlight_questions
from fdarx_core.generation.tasks import (
    GENERATE_FACTUAL,
    GENERATE_MULTIHOP,
    REPHRASE_REFUSAL,
    TASKS,
    FactualReply,
    MultihopReply,
    RephraseReply,
)
from fdarx_core.labels.topics import topic_of
from fdarx_core.llm import Unparsable
from fdarx_core.records import NO_ANSWER, Label, Passage, QuestionAnswer, Reject, Response, content_id

STAGE = "generate"


def understand(
    context: Context, response: Response, label: Label, passages: Sequence[Passage]
) -> list[QuestionAnswer] | Reject:
    """The questions that a response holds, or why it holds none."""
    try:
        reply = TASKS[context.task].parse(response)
    except Unparsable as error:
        return Reject(context.id, STAGE, error.reason, error.detail, label.set_id)
    gold = [passages[index] for index in context.passages]
    questions = [
        _finish(question, context, response) for question in _READERS[context.task](reply, context, label, gold)
    ]
    if not questions:
        where = " and ".join(f"{p.marker} {p.section_title}" for p in gold)
        return Reject(context.id, STAGE, "nothing_to_ask", where, label.set_id)
    return questions


def from_highlights(label: Label, passages: Sequence[Passage]) -> list[QuestionAnswer]:
    """The questions that the Highlights give without asking a model."""
    made = []
    for draft in highlight_questions(label, passages):
        gold = [passages[index] for index in draft.gold]
        question = _question(
            "factual", "factual", "highlights", draft.category, label, draft.question, draft.answer, gold
        )
        question.gold_has_answer = draft.has_answer
        question.template = draft.template
        made.append(_identified(question))
    return made


def _question(
    kind: str,
    answer_kind: str,
    source: str,
    category: str,
    label: Label,
    question: str,
    answer: str,
    gold: Sequence[Passage],
) -> QuestionAnswer:
    return QuestionAnswer(
        id="",
        type=kind,
        answer_kind=answer_kind,
        source=source,
        category=category,
        set_id=label.set_id,
        drug_name=label.drug_name,
        question=question,
        answer=answer,
        gold_passages=[passage.doc_chunk_index for passage in gold],
        gold_codes=[passage.section_code for passage in gold],
        gold_has_answer=[True] * len(gold),
    )


def _factual(reply: FactualReply, context: Context, label: Label, gold: list[Passage]) -> Iterator[QuestionAnswer]:
    for item in reply.items:
        category = topic_of(gold[0].core_code)
        yield _question("factual", item.type, "section", category, label, item.question, item.answer, gold)


def _multihop(reply: MultihopReply, context: Context, label: Label, gold: list[Passage]) -> Iterator[QuestionAnswer]:
    for item in reply.items:
        category = topic_of(gold[0].core_code)
        yield _question("multihop", "multihop", "section_pair", category, label, item.question, item.answer, gold)


def _refusal(reply: RephraseReply, context: Context, label: Label, gold: list[Passage]) -> Iterator[QuestionAnswer]:
    source, category = "refusal_template", context.category
    yield _question("refusal", "refusal", source, category, label, reply.question, NO_ANSWER, gold)


_READERS: dict[str, Callable[[Any, Context, Label, list[Passage]], Iterator[QuestionAnswer]]] = {
    GENERATE_FACTUAL.name: _factual,
    GENERATE_MULTIHOP.name: _multihop,
    REPHRASE_REFUSAL.name: _refusal,
}


def _finish(question: QuestionAnswer, context: Context, response: Response) -> QuestionAnswer:
    question.template, question.entity = context.template, context.entity
    question.task, question.task_version = response.task, response.task_version
    question.endpoint, question.response_key = response.endpoint, response.key
    return _identified(question)


def _identified(question: QuestionAnswer) -> QuestionAnswer:
    gold = ",".join(map(str, question.gold_passages))
    question.id = content_id(question.type, question.set_id, question.question, question.answer, gold)
    return question
