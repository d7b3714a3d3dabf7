"""Refusal questions: clinical templates filled with what the label never mentions. Source: FDARxBench §B.2."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from fdarx_core.baseline.tokens import decapitalise
from fdarx_core.generation.library import MAX_QUESTION, RefusalTemplate, refusal_entities, refusal_templates
from fdarx_core.records import content_id

_NOT_WORD = re.compile(r"\W+")
_HYPHENS = re.compile(r"[\u00ad\u200b\u2010-\u2015\u2212-]")
_MARK = "_"
_POSSESSIVE = re.compile(r"['\u2019\u02bc]s\b")


RefusalDraft = tuple[str, str, RefusalTemplate]
"""A question that the label cannot answer, the entity that it asks about, and its template."""


def refusal_questions(label_text: str, drug: str, set_id: str, seed: int, count: int) -> list[RefusalDraft]:
    """Return at most `count` questions about entities that do not occur in the label.

    Entities and templates differ within a label, and categories take turns, in an order by a hash of seed and set id.
    An entity does not occur if neither it nor one of its other wordings is in the text or the drug's name; case,
    accents, punctuation, hyphens and the plural are ignored.

    Args:
        label_text: the whole text of the label, with its Highlights.
        drug: the name of the drug.
        set_id: the label's set id.
        seed: the seed of the run.
        count: the number of questions.
    """
    texts, key = _searchable(f"{label_text}\n{drug}"), f"{seed}\x1f{set_id}"
    absent = {kind: _absent_entities(kind, texts, key) for kind in refusal_entities()}
    drafts: list[RefusalDraft] = []
    for template in _templates_in_turn(key):
        if len(drafts) >= count:
            break
        entity = next(absent[template.kind], "")
        question = template.text.format(drug=drug, entity=entity)
        if entity and len(question) <= MAX_QUESTION:
            drafts.append((question, entity, template))
    return drafts


def _absent_entities(kind: str, texts: tuple[str, str], key: str) -> Iterator[str]:
    for entity in sorted(refusal_entities()[kind], key=lambda entity: content_id(key, entity)):
        if not any(probe in text for text in texts for probe in _probes(kind, entity)):
            yield entity


def _templates_in_turn(key: str) -> list[RefusalTemplate]:
    """Return all templates in rounds with one of each category, so that any number of them covers many topics."""
    digests = {template: content_id(key, template.text) for template in refusal_templates()}
    rounds: dict[str, int] = {}
    order: dict[RefusalTemplate, tuple[int, str]] = {}
    for template in sorted(digests, key=digests.__getitem__):
        number = rounds[template.category] = rounds.get(template.category, -1) + 1
        order[template] = (number, digests[template])
    return sorted(order, key=order.__getitem__)


def _searchable(text: str) -> tuple[str, str]:
    """Return the text for substring search, once with hyphens as spaces and once without hyphens."""
    lowered = text.lower()
    if not lowered.isascii():
        lowered = "".join(char for char in unicodedata.normalize("NFKD", lowered) if not unicodedata.combining(char))
    plain = _POSSESSIVE.sub("", lowered)
    marked = f" {_NOT_WORD.sub(' ', _HYPHENS.sub(_MARK, plain))} "
    bare = marked.replace(f" {_MARK}", " ").replace(f"{_MARK} ", " ")
    return bare.replace(_MARK, " "), bare.replace(_MARK, "")


@cache
def _probes(kind: str, entity: str) -> tuple[str, ...]:
    wordings = [entity, *refusal_entities()[kind][entity]]
    return tuple(dict.fromkeys(probe for wording in wordings for probe in _wording_probes(wording)))


def _wording_probes(wording: str) -> Iterator[str]:
    # Acronyms are searched as words: "ECT" is in "effect", "PRES" in "express".
    acronym = wording.isupper() and len(wording) <= 6
    for form in _searchable(wording):
        stripped = form.strip()
        yield f" {stripped} " if acronym else _singular(stripped)


def _singular(phrase: str) -> str:
    """Return a stem that singular and plural share; a substring search for it finds both."""
    if len(phrase) > 7 and phrase.endswith("ies"):
        return phrase[:-3]
    if len(phrase) > 5 and phrase.endswith("s") and not phrase.endswith(("ss", "us", "is")):
        return phrase[:-1]
    return phrase[:-1] if len(phrase) > 5 and phrase.endswith("y") else phrase


def rephrase(slots: Mapping[str, Any]) -> str:
    """Return a refusal question in other words, with drug and entity unchanged; the baseline's rephrase_refusal.

    The wording is another one of the question's template. A question of no known template begins with "In its
    prescribing information", or stays as it is where it would become too long.
    """
    drug, entity, question = str(slots["drug"]), str(slots["entity"]), str(slots["question"])
    others = {one.text: one.also for one in refusal_templates()}  # of templates with one text the last decides
    template = next((text for text in others if text.format(drug=drug, entity=entity) == question), "")
    wordings = [text.format(drug=drug, entity=entity) for text in others.get(template, ())]
    if fitting := [text for text in wordings if len(text) <= MAX_QUESTION]:
        return fitting[int(content_id(question), 16) % len(fitting)]
    attributed = f"In its prescribing information, {decapitalise(question, keep=f'{drug} {entity}')}"
    return attributed if question and len(attributed) <= MAX_QUESTION else question
