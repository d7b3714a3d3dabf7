"""Refusal questions: clinical templates filled with what the label never mentions. Source: FDARxBench §B.2."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from pydantic import BaseModel, ConfigDict, model_validator

from fdarx_core.generation.library import load_library
from fdarx_core.records import content_id

MAX_QUESTION = 200
"""Characters of the longest question that the rules of FDARxBench §B.4 let pass."""

_NOT_WORD = re.compile(r"\W+")
_HYPHENS = re.compile(r"[\u00ad\u200b\u2010-\u2015\u2212-]")
_MARK = "_"
_POSSESSIVE = re.compile(r"['\u2019\u02bc]s\b")


@dataclass(slots=True)
class RefusalDraft:
    """A question that its label cannot answer; `kind` is the entity's, `category` one of the nine topics of §B.4."""

    question: str
    entity: str
    template: str
    category: str
    kind: str


class RefusalTemplate(BaseModel):
    """One question to ask about an entity of one kind, and other wordings of the same question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    category: str
    text: str
    also: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _have_their_slots(self) -> RefusalTemplate:
        for text in (self.text, *self.also):
            if text.count("{drug}") != 1 or text.count("{entity}") != 1:
                raise ValueError(f"refusal.yaml: a template holds {{drug}} once and {{entity}} once: {text!r}")
        return self


class RefusalLibrary(BaseModel):
    """`refusal.yaml`: entities by kind with their other wordings, and templates that fit those kinds."""

    model_config = ConfigDict(extra="forbid")

    entities: dict[str, dict[str, list[str]]]
    templates: list[RefusalTemplate]

    @model_validator(mode="after")
    def _kinds_agree(self) -> RefusalLibrary:
        if unknown := {template.kind for template in self.templates} ^ set(self.entities):
            raise ValueError(f"refusal.yaml: kinds with entities but no template, or the reverse: {sorted(unknown)}")
        return self


@cache
def refusal_library() -> RefusalLibrary:
    """The project's own library of entities and templates, read once."""
    return RefusalLibrary.model_validate(load_library("refusal"))


def refusal_questions(label_text: str, drug: str, set_id: str, seed: int, count: int) -> list[RefusalDraft]:
    """At most `count` questions about things absent from `label_text`, the label's whole text, Highlights included.

    Entities and templates all differ within a label, categories take turns; which ones come is settled by a hash of
    seed and set id. An entity is absent when neither it nor one of its other wordings, in singular or plural, with
    or without hyphens, occurs in the text or the drug's name, ignoring case, accents and punctuation.
    """
    texts, key = _searchable(f"{label_text}\n{drug}"), f"{seed}\x1f{set_id}"
    waiting = {kind: _absent(kind, texts, key) for kind in refusal_library().entities}
    drafts: list[RefusalDraft] = []
    for template in _templates_in_turn(key):
        if len(drafts) >= count:
            break
        entity = next(waiting[template.kind], "")
        question = template.text.format(drug=drug, entity=entity)
        if entity and len(question) <= MAX_QUESTION:
            drafts.append(RefusalDraft(question, entity, template.text, template.category, template.kind))
    return drafts


def _absent(kind: str, texts: tuple[str, str], key: str) -> Iterator[str]:
    for entity in sorted(refusal_library().entities[kind], key=lambda entity: content_id(key, entity)):
        if not any(probe in text for text in texts for probe in _probes(kind, entity)):
            yield entity


def _templates_in_turn(key: str) -> list[RefusalTemplate]:
    """All templates, category after category in rounds, so that any number of them is spread over the topics."""
    hashed = {template: content_id(key, template.text) for template in refusal_library().templates}
    rounds: dict[str, int] = {}
    places: dict[RefusalTemplate, tuple[int, str]] = {}
    for template in sorted(hashed, key=hashed.__getitem__):
        place = rounds[template.category] = rounds.get(template.category, -1) + 1
        places[template] = (place, hashed[template])
    return sorted(places, key=places.__getitem__)


def _searchable(text: str) -> tuple[str, str]:
    """The text for substring search, with hyphens as spaces and with hyphens closed up."""
    plain = _POSSESSIVE.sub("", _unaccented(text.lower()))
    marked = f" {_NOT_WORD.sub(' ', _HYPHENS.sub(_MARK, plain))} "
    bare = marked.replace(f" {_MARK}", " ").replace(f"{_MARK} ", " ")
    return bare.replace(_MARK, " "), bare.replace(_MARK, "")


def _unaccented(text: str) -> str:
    if text.isascii():
        return text
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))


@cache
def _probes(kind: str, entity: str) -> tuple[str, ...]:
    wordings = [entity, *refusal_library().entities[kind][entity]]
    return tuple(dict.fromkeys(probe for wording in wordings for probe in _wording_probes(wording)))


def _wording_probes(wording: str) -> Iterator[str]:
    # Acronyms are searched as words: "ECT" is in "effect", "PRES" in "express".
    acronym = wording.isupper() and len(wording) <= 6
    for form in _searchable(wording):
        stripped = form.strip()
        yield f" {stripped} " if acronym else _singular(stripped)


def _singular(phrase: str) -> str:
    """A stem that singular and plural share: searching is by substring, so the shorter form finds both."""
    if len(phrase) > 7 and phrase.endswith("ies"):
        return phrase[:-3]
    if len(phrase) > 5 and phrase.endswith("s") and not phrase.endswith(("ss", "us", "is")):
        return phrase[:-1]
    return phrase[:-1] if len(phrase) > 5 and phrase.endswith("y") else phrase
