"""A label of an invented drug and questions on it, for the tests of the judges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fdarx_core.filters.judges import Judge, judges
from fdarx_core.records import NO_ANSWER, JudgeVerdict, Label, Passage, QuestionAnswer, Response

_TEXTS = (
    (
        "34068-7",
        "DOSAGE AND ADMINISTRATION > Recommended Dosage",
        "For angina, the recommended starting dose of VELORIN is 40 mg once daily. Swallow the tablets whole.",
    ),
    (
        "43684-0",
        "USE IN SPECIFIC POPULATIONS > Hepatic Impairment",
        "In patients with moderate hepatic impairment, exposure to velorin doubles; give half the usual starting dose.",
    ),
    (
        "34070-3",
        "CONTRAINDICATIONS",
        "VELORIN is contraindicated in patients with anuria. Do not give it with nitrates.",
    ),
)


def _passage(place: int) -> Passage:
    code, path, text = _TEXTS[place]
    return Passage("set-1", place, 0, code, code, "", path.split(" > ")[-1], path, text)


PASSAGES = [_passage(place) for place in range(len(_TEXTS))]
LABEL = Label(
    set_id="set-1",
    version=1,
    effective_date="2024-01-01",
    document_type="34391-3",
    document_type_name="Human prescription drug label",
    title="VELORIN tablets",
    drug_name="Velorin",
    aliases=["Velorin", "velorinib"],
    substances=["velorinib"],
    uniis=[],
    routes=["oral"],
    dosage_forms=["tablet"],
    labeler="",
    ndcs=[],
    marketing_categories=[],
    application_numbers=[],
    boxed_warning="",
    sections=[],
    highlights=[],
)
FACTUAL = QuestionAnswer(
    id="f1",
    type="factual",
    answer_kind="numeric",
    source="section",
    category="Dosage & Administration",
    set_id="set-1",
    drug_name="Velorin",
    question="What starting dose of Velorin is recommended for angina?",
    answer="For angina, the recommended starting dose of VELORIN is 40 mg once daily.",
    gold_passages=[0],
)
MULTIHOP = replace(
    FACTUAL,
    id="m1",
    type="multihop",
    answer_kind="multihop",
    question="What starting dose of Velorin suits a patient with angina whose hepatic impairment is moderate?",
    answer="For angina, the recommended starting dose of VELORIN is 40 mg once daily. In patients with moderate "
    "hepatic impairment, exposure to velorin doubles; give half the usual starting dose.",
    gold_passages=[0, 1],
)
REFUSAL = replace(
    FACTUAL,
    id="r1",
    type="refusal",
    answer_kind="refusal",
    question="Is Velorin contraindicated in patients with babesiosis?",
    answer=NO_ANSWER,
    gold_passages=[],
    entity="babesiosis",
)
QUESTIONS = {one.type: one for one in (FACTUAL, MULTIHOP, REFUSAL)}


def judge(stage: str) -> Judge:
    return next(one for one in judges() if one.stage == stage)


def slots(stage: str, question: QuestionAnswer) -> dict[str, Any]:
    return judge(stage).slots(question, LABEL, PASSAGES)


def verdict(stage: str, question: QuestionAnswer, text: str, reason: str = "") -> JudgeVerdict:
    """The verdict when a model replies with `text`."""
    task = judge(stage).task(question)
    assert task is not None
    response = Response("key-1", task.name, task.version, "small", text, reason)
    return judge(stage).read(question, slots(stage, question), response)
