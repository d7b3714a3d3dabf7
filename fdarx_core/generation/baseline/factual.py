"""Questions from one passage by rules: the `baseline` answer to the task generate_factual."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fdarx_core.generation.baseline.engine import Candidate, apply_rule, opening_statement
from fdarx_core.generation.baseline.naming import is_about
from fdarx_core.generation.baseline.rulebook import RULES
from fdarx_core.generation.baseline.scene import MAX_ANSWER, set_scene
from fdarx_core.generation.baseline.tables import table_candidates
from fdarx_core.generation.baseline.text import numbers_stand_in
from fdarx_core.generation.baseline.units import Reading


def factual_questions(slots: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Up to `k` (question, answer, kind) from one passage; kind is factual, list or numeric.

    Slots: drug, section_title, section_path, section_code (core LOINC code), context, k. The answers are sentences of
    the passage. A passage that no rule reads with confidence gives none.
    """
    drug, context = slots["drug"].strip(), slots["context"]
    if not drug or slots["k"] < 1:
        return []
    reading = Reading(context)
    about_drug = is_about(drug, slots["section_path"], context)
    title, code = slots["section_title"], slots["section_code"]
    candidates = [
        *_from_sentences(reading, drug, title, code, about_drug),
        *table_candidates(reading, context, drug, code),
    ]
    found = _merge_same_question(candidates)
    fit = [one for one in found if _fits(one, drug, context)]
    if not fit and (last := opening_statement(reading, drug, title, code)):
        fit = [one for one in [last] if _fits(one, drug, context)]
    return [(one.question, one.answer, one.kind) for one in _choose(fit, slots["k"])]


def _from_sentences(reading: Reading, drug: str, title: str, code: str, about_drug: bool) -> Iterator[Candidate]:
    for unit in reading.units:
        scene = set_scene(unit, drug, title, code, about_drug)
        if scene is None:
            continue
        for rule in RULES:
            if candidate := apply_rule(rule, scene):
                yield candidate


def _merge_same_question(candidates: list[Candidate]) -> list[Candidate]:
    """One candidate a question: sentences that answer the same question are one answer together."""
    kept: dict[str, Candidate] = {}
    for one in candidates:
        first = kept.get(one.question)
        if first is None:
            kept[one.question] = one
        elif one.answer not in first.answer:
            first.answer = f"{first.answer} {one.answer}"
    return list(kept.values())


def _fits(one: Candidate, drug: str, context: str) -> bool:
    return (
        10 <= len(one.question) <= 200
        and 5 <= len(one.answer) <= MAX_ANSWER
        and drug.lower() in one.question.lower()
        and numbers_stand_in(one.answer, context)
    )


def _choose(candidates: list[Candidate], k: int) -> list[Candidate]:
    """The k best, none of whose answers repeats another's, in the order of the passage."""
    chosen: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: (-one.weight, one.order, one.question)):
        if len(chosen) < k and not any(one.answer in other.answer or other.answer in one.answer for other in chosen):
            chosen.append(one)
    return sorted(chosen, key=lambda one: one.order)
