"""Candidate questions from the replies of a generator. Source: FDARxBench §B.2, §B.3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fdarx_core.generation.contexts import Context
from fdarx_core.generation.tasks import GENERATE_MULTIHOP, TASKS, Twin
from fdarx_core.labels.loinc import topic_of
from fdarx_core.llm import Baseline, Unparsable
from fdarx_core.records import NO_ANSWER, Label, Passage, QuestionAnswer, Reject, Response, content_id

STAGE = "generate"
NOTHING_TO_ASK = "nothing_to_ask"
"""The reason of a reject for a reply without items, which is a good reply where nothing is worth asking."""


def parse_candidates(
    context: Context, response: Response, label: Label, passages: Sequence[Passage]
) -> list[QuestionAnswer] | Reject:
    """Return the questions in a response to a context, each with its twin, or a reject that says why there are none."""
    try:
        reply: Any = TASKS[context.task].parse(response)
    except Unparsable as error:
        return Reject(context.id, STAGE, error.reason, error.detail, label.set_id)
    gold = [passages[index] for index in context.passages]
    if not reply.items:
        where = " and ".join(f"{p.marker} {p.section_title}" for p in gold)
        return Reject(context.id, STAGE, NOTHING_TO_ASK, where, label.set_id)
    made_by = {
        "category": context.category or topic_of(gold[0].core_code),
        "task": response.task,
        "task_version": response.task_version,
        "endpoint": response.endpoint,
        "response_key": response.key,
        "template": context.template if response.endpoint == Baseline.name else "",  # a model has its own wordings
    }
    questions: list[QuestionAnswer] = []
    for item in reply.items:
        if context.task == GENERATE_MULTIHOP.name:
            own = {"type": "multihop", "source": "section_pair", "answer_kind": "multihop", "difficulty": item.kind}
            evidence = [*item.evidence_a, *item.evidence_b]
        else:
            own = {"type": "factual", "source": "section", "answer_kind": item.type, "difficulty": item.difficulty}
            evidence = item.evidence
        one = _question(label, item.question, item.answer, gold, evidence=evidence, **own)
        questions.append(_made(one, made_by))
        if item.twin is not None:
            twin = _made(_twin(label, item.twin, one, context), made_by)
            twin.category = context.twin_category or twin.category
            questions.append(twin)
    return questions


def _twin(label: Label, twin: Twin, of: QuestionAnswer, context: Context) -> QuestionAnswer:
    """Return the refusal question that was written with an answerable one."""
    own = {"type": "refusal", "source": "twin", "answer_kind": "refusal", "difficulty": of.difficulty}
    asked = {"entity": twin.entity, "attribute": twin.attribute if twin.kind == "near_miss" else ""}
    return _question(label, twin.question, NO_ANSWER, [], twin=of.id, **asked, **own)


def _made(question: QuestionAnswer, by: dict[str, Any]) -> QuestionAnswer:
    for name, value in by.items():
        setattr(question, name, value)
    return question


def _question(label: Label, question: str, answer: str, gold: Sequence[Passage], **fields: Any) -> QuestionAnswer:
    indices = [passage.doc_chunk_index for passage in gold]
    return QuestionAnswer(
        id=content_id(fields["type"], label.set_id, question, answer, ",".join(map(str, indices))),
        category="",
        set_id=label.set_id,
        drug_name=label.drug_name,
        question=question,
        answer=answer,
        gold_passages=indices,
        gold_codes=[passage.section_code for passage in gold],
        gold_has_answer=[True] * len(gold),
        **fields,
    )
