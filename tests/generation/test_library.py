"""The libraries of question generation are whole: every name that one part of a file uses, another part defines."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from fdarx_core.generation.library import (
    RefusalTemplate,
    load_library,
    refusal_entities,
    refusal_templates,
    section_pairs,
)
from fdarx_core.generation.multihop import link_rules
from fdarx_core.generation.question_rules import question_rules
from fdarx_core.labels.loinc import Topic

SECTIONS: dict[str, list[str]] = load_library("section_pairs")["sections"]


def test_section_pairs_are_of_known_roles_and_no_code_has_two_roles() -> None:
    codes = [code for listed in SECTIONS.values() for code in listed]
    assert len(codes) == len(set(codes))
    assert {role for pair in section_pairs() for role in pair} <= SECTIONS.keys()


@pytest.mark.parametrize("template", refusal_templates(), ids=lambda one: one.text[:40])
def test_a_refusal_template_has_drug_and_entity_once(template: RefusalTemplate) -> None:
    for text in (template.text, *template.also):
        assert text.count("{drug}") == text.count("{entity}") == 1


def test_each_kind_of_entity_has_a_template() -> None:
    assert {template.kind for template in refusal_templates()} == refusal_entities().keys()


def test_highlight_templates_name_the_drug_and_the_topic() -> None:
    headings = load_library("highlights")["headings"]
    assert len(headings) == 9
    for heading in headings.values():
        assert heading.keys() == {"category", "whole", "topic"} and heading["category"] in get_args(Topic)
        assert heading["whole"] and all("{topic}" not in text for text in heading["whole"])
        assert heading["topic"] and all(text.find("{topic}") > 0 for text in heading["topic"])
        assert all("{drug}" in text and text.endswith("?") for text in heading["whole"] + heading["topic"])


def test_link_rules_name_known_roles_and_lexicons() -> None:
    lexicons = load_library("multihop")["lexicons"]
    for rule in link_rules():
        assert rule.sides[0].roles | rule.sides[1].roles <= SECTIONS.keys(), rule.name
        assert not rule.key or rule.key in lexicons, rule.name
        assert all("{drug}" in ask and ("{key}" in ask) == bool(rule.key) for ask in rule.ask), rule.name


def test_factual_rules_have_the_groups_that_their_questions_need() -> None:
    assert len({rule.name for rule in question_rules()}) == len(question_rules()) == 89
    for rule in question_rules():
        assert rule.gate and rule.sound.keys() <= rule.pattern.groupindex.keys(), rule.name
        slots = set(re.findall(r"{(\w+)}", rule.ask)) - {"drug", "lead"}
        assert slots <= rule.pattern.groupindex.keys() or rule.shape, rule.name


def test_alternatives_of_sentences_are_distinct_patterns() -> None:
    for name, entries in load_library("sentences").items():
        assert len(entries) == len(set(entries)) > 0, name
        assert all(re.compile(entry) for entry in entries), name
