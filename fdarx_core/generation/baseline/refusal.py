"""The baseline's rephrasing of refusal questions: another written wording of the same template."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from fdarx_core.generation.baseline.text import decapitalise
from fdarx_core.generation.refusal import MAX_QUESTION, refusal_library
from fdarx_core.records import content_id


def rephrase(slots: Mapping[str, Any]) -> str:
    """The question in other words, drug and entity letter for letter.

    Args:
        slots: those of the task rephrase_refusal.

    Returns:
        One of the other wordings of the template that the question was made from; a question of no known template is
        attributed to the prescribing information, or comes back as it was where that would make it too long.
    """
    drug, entity, question = str(slots["drug"]), str(slots["entity"]), str(slots["question"])
    wordings = _wordings().get(_template(question, drug, entity), ())
    fitting = [text for text in (w.format(drug=drug, entity=entity) for w in wordings) if len(text) <= MAX_QUESTION]
    if fitting:
        return fitting[int(content_id(question), 16) % len(fitting)]
    attributed = f"In its prescribing information, {decapitalise(question, keep=f'{drug} {entity}')}"
    return attributed if question and len(attributed) <= MAX_QUESTION else question


@cache
def _wordings() -> dict[str, tuple[str, ...]]:
    return {template.text: template.also for template in refusal_library().templates}


def _template(question: str, drug: str, entity: str) -> str:
    """The template that a question was made from, whichever of drug and entity comes first in it."""
    for text in _wordings():
        if text.format(drug=drug, entity=entity) == question:
            return text
    return ""
