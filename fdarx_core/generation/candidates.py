"""Candidate questions from the replies of a generator. Source: FDARxBench §B.2, §B.3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fdarx_core.generation.contexts import Context
from fdarx_core.generation.tasks import Twin
from fdarx_core.generation.writing import written_types
from fdarx_core.labels.loinc import topic_of
from fdarx_core.llm import Baseline, Unparsable
from fdarx_core.records import NO_ANSWER, Label, Passage, QuestionAnswer, Reject, Response, content_id

STAGE = "generate"
NOTHING_TO_ASK = "nothing_to_ask"
"""The reason of a reject for a reply without items, which is right for a context with nothing worth asking."""


def parse_candidates(
    context: Context, response: Response, label: Label, passages: Sequence[Passage]
) -> list[QuestionAnswer] | Reject:
    """Return the questions in a response to a context, each with its twin, or a reject that says why there are none."""
    kind = written_types()[context.task]
    try:
        reply: Any = kind.writing.task.parse(response)
    except Unparsable as error:
        return Reject(context.id, STAGE, error.reason, error.detail, label.set_id)
    gold = [passages[index] for index in context.passages]
    if not reply.items and context.refusal is None:
        where = " and ".join(f"{p.marker} {p.section_title}" for p in gold)
        return Reject(context.id, STAGE, NOTHING_TO_ASK, where, label.set_id)
    common: dict[str, Any] = {
        "category": context.category or (topic_of(gold[0].core_code) if gold else context.twin_category),
        "task": response.task,
        "task_version": response.task_version,
        "endpoint": response.endpoint,
        "response_key": response.key,
        "template": context.template if response.endpoint == Baseline.name else "",  # a model has its own wordings
    }
    questions = [] if context.refusal is None else [_twin(label, context.refusal, common)]
    for item in reply.items:
        written = kind.writing.read(item)
        question = make_question(
            label,
            written.question,
            written.answer,
            gold,
            type=kind.name,
            source=kind.source,
            answer_kind=written.answer_kind,
            difficulty=written.difficulty,
            evidence=list(written.evidence),
            **common,
        )
        questions.append(question)
        if written.twin is not None:
            category = context.twin_category or common["category"]
            questions.append(_twin(label, written.twin, common | {"category": category}, question))
    return questions


def _twin(label: Label, twin: Twin, common: dict[str, Any], of: QuestionAnswer | None = None) -> QuestionAnswer:
    """Return a refusal question, with the id of the answerable one that it was written with, if there is one."""
    own = {"type": "refusal", "source": "twin", "answer_kind": "refusal"}
    asked = {"entity": twin.entity, "attribute": twin.attribute if twin.kind == "near_miss" else ""}
    written_with = {"twin": of.id, "difficulty": of.difficulty} if of else {"difficulty": "direct"}
    return make_question(label, twin.question, NO_ANSWER, [], **written_with, **asked, **own, **common)


def make_question(label: Label, question: str, answer: str, gold: Sequence[Passage], **fields: Any) -> QuestionAnswer:
    """Return a question on a label with its gold passages; its id is a hash of type, label, texts and passages.

    `fields` are further fields of `QuestionAnswer`, among them `type`, `answer_kind`, `source` and `category`.
    """
    indices = [passage.doc_chunk_index for passage in gold]
    return QuestionAnswer(
        id=content_id(fields["type"], label.set_id, question, answer, ",".join(map(str, indices))),
        set_id=label.set_id,
        drug_name=label.drug_name,
        question=question,
        answer=answer,
        gold_passages=indices,
        gold_codes=[passage.section_code for passage in gold],
        gold_has_answer=[True] * len(gold),
        **fields,
    )
