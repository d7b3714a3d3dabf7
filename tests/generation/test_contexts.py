"""Contexts of a label: section pairs and refusal questions."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.generation.contexts import choose_passage_pairs
from fdarx_core.generation.library import load_library, refusal_entities, refusal_templates, role_of, section_pairs
from fdarx_core.generation.multihop import multihop_questions
from fdarx_core.generation.refusal import refusal_questions, rephrase
from fdarx_core.records import Passage

LABEL = (
    "Quorvelin tablets treat Crohn’s disease. Avoid warfarin. Watch for anaemias, QT prolongation and co-trimoxazole."
)
CATEGORIES = {
    "Indications & Usage",
    "Dosage & Administration",
    "Dosage Forms & Strengths & Formulation",
    "Contraindications",
    "Safety & Serious Risks",
    "Adverse Events",
    "Drug Interactions",
    "Use in Specific Populations",
    "Pharmacokinetics",
}
ENTITIES = [(kind, entity) for kind, listed in refusal_entities().items() for entity in listed]


def test_the_library_is_large_and_covers_all_topics() -> None:
    assert len(ENTITIES) >= 400
    assert len(refusal_templates()) >= 30
    assert {template.category for template in refusal_templates()} == CATEGORIES
    assert len({entity for _, entity in ENTITIES}) == len(ENTITIES)


def test_questions_differ_in_entity_template_and_topic() -> None:
    drafts = refusal_questions(LABEL, "Quorvelin", "set-1", seed=0, count=9)
    assert len(drafts) == 9
    assert {template.category for *_, template in drafts} == CATEGORIES
    assert len({entity for _, entity, _ in drafts}) == len({template.text for *_, template in drafts}) == 9
    for question, entity, template in drafts:
        assert question == template.text.format(drug="Quorvelin", entity=entity)
        assert len(question) <= 200


@pytest.mark.parametrize(
    ("entity", "mention"),
    [
        ("Gaucher disease", "patients with GAUCHER's disease"),
        ("Sjögren syndrome", "Sjogren's syndrome"),
        ("gallstone formation", "Gallstones were reported"),
        ("NT-proBNP", "levels of NTproBNP"),
        ("NT-proBNP", "nt\u2011probnp"),
        ("coffee", "products with caffeine"),
        ("posterior reversible encephalopathy", "cases of PRES (n = 2)"),
        ("retinal detachment", "retinal\n  detachments"),
    ],
)
def test_an_entity_that_the_label_mentions_in_any_wording_is_not_used(entity: str, mention: str) -> None:
    def asked(text: str) -> set[str]:
        drafts = [d for seed in range(150) for d in refusal_questions(text, "Quorvelin", "s", seed, 60)]
        return {entity for _, entity, _ in drafts}

    assert entity in asked("effects expressed elsewhere")
    assert entity not in asked(f"effects expressed elsewhere: {mention}.")


def test_the_drug_is_never_asked_about_as_an_entity() -> None:
    drafts = [d for seed in range(100) for d in refusal_questions("", "Colchicine Tablets", "s", seed, 60)]
    assert not any("colchicine" in entity.lower() for _, entity, _ in drafts)


@given(st.text(max_size=300), st.text(max_size=60), st.text(max_size=20), st.integers(0, 9), st.integers(0, 70))
def test_any_text_gives_absent_entities_again_and_again(
    text: str, drug: str, set_id: str, seed: int, count: int
) -> None:
    drafts = refusal_questions(text, drug, set_id, seed, count)
    assert drafts == refusal_questions(text, drug, set_id, seed, count)
    assert len(drafts) <= count
    assert len({entity for _, entity, _ in drafts}) == len(drafts)
    for question, entity, _ in drafts:
        assert entity.lower() not in f"{text} {drug}".lower()
        assert drug in question


@given(st.sampled_from(ENTITIES), st.text(min_size=1, max_size=60), st.sampled_from(refusal_templates()))
def test_rephrasing_keeps_drug_and_entity(pair: tuple[str, str], drug: str, template: object) -> None:
    text = template.text.format(drug=drug, entity=pair[1])  # type: ignore[attr-defined]
    again = rephrase({"drug": drug, "entity": pair[1], "question": text})
    assert drug in again
    assert pair[1] in again
    assert len(again) <= 200 or again == text
    assert again == rephrase({"drug": drug, "entity": pair[1], "question": text})


def test_rephrasing_gives_other_words() -> None:
    for template in refusal_templates():
        question = template.text.format(drug="Quorvelin", entity="malaria")
        assert rephrase({"drug": "Quorvelin", "entity": "malaria", "question": question}) != question


@given(st.text(max_size=250))
def test_rephrasing_a_question_of_no_template_keeps_its_words(question: str) -> None:
    again = rephrase({"drug": "Quorvelin", "entity": "malaria", "question": question})
    assert question[1:] in again


SECTIONS = {
    "34068-7": [
        "The recommended starting dose of Quorvelin is 50 mg once daily. The maximum daily dose is 200 mg.",
        "Reduce the dose to 25 mg daily in patients with severe renal impairment. Take Quorvelin with food.",
    ],
    "43678-2": ["Quorvelin tablets are available as 50 mg and 100 mg tablets, white and round, marked Q on one side."],
    "43682-4": [
        "The AUC of quorvelin was increased by 80% in patients with severe renal impairment.",
        "Food increases the absorption of quorvelin, with a 40% higher Cmax after a high-fat meal.",
        "The elimination half-life of quorvelin is approximately 22 hours.",
    ],
    "34070-3": ["Quorvelin is contraindicated in patients with hepatic impairment."],
    "43685-7": ["Quorvelin can cause fatal hepatotoxicity in patients with hepatic impairment."],
    "34076-0": ["Advise patients to report signs of hepatotoxicity, such as jaundice, to their physician at once."],
    "51945-4": ["Quorvelin 50 mg, 30 tablets."],
}


def _passages(set_id: str = "set-1") -> list[Passage]:
    texts = [(code, text) for code, listed in SECTIONS.items() for text in listed]
    return [Passage(set_id, i, 0, code, code, "", "", "", text) for i, (code, text) in enumerate(texts)]


def _indices(pairs: list[tuple[Passage, Passage]]) -> list[tuple[int, int]]:
    return [(a.doc_chunk_index, b.doc_chunk_index) for a, b in pairs]


def test_the_table_gives_reasons_for_each_pair_and_covers_both_label_formats() -> None:
    sections, pairs = load_library("section_pairs")["sections"], load_library("section_pairs")["pairs"]
    assert len(pairs) >= 20
    assert all(pair["why"] and pair["links"] and pair["a"] != pair["b"] for pair in pairs)
    codes = {code for listed in sections.values() for code in listed}
    assert all(re.fullmatch(r"\d{4,5}-\d", code) for code in codes)
    paired = {role for pair in section_pairs() for role in pair}
    needed = {"34068-7", "43685-7", "34071-1", "43682-4", "34090-1"}
    assert needed <= {code for role in paired for code in sections[role]}


def test_each_pair_joins_two_sections_of_the_table() -> None:
    allowed = set(section_pairs())
    chosen = choose_passage_pairs(_passages(), seed=0, count=50)
    assert chosen
    assert all((role_of(a.core_code), role_of(b.core_code)) in allowed for a, b in chosen)
    assert len(set(_indices(chosen))) == len(chosen)


def _asks(a: Passage, b: Passage) -> bool:
    titles = {"drug": "Quorvelin", "section_title_a": "", "section_title_b": ""}
    codes = {"section_code_a": a.core_code, "section_code_b": b.core_code}
    return bool(multihop_questions({**titles, **codes, "context_a": a.text, "context_b": b.text}))


def test_passages_with_something_to_ask_about_come_first_and_from_different_sections() -> None:
    chosen = choose_passage_pairs(_passages(), seed=0, count=50)
    asking = [_asks(a, b) for a, b in chosen]
    assert 4 <= sum(asking) < len(asking)
    assert asking == sorted(asking, reverse=True)
    assert len({(a.core_code, b.core_code) for a, b in chosen[:4]}) >= 3


@given(st.integers(0, 10**6), st.integers(0, 20), st.randoms(use_true_random=False))
def test_the_choice_is_bounded_and_depends_on_seed_and_label_alone(seed: int, count: int, rng: random.Random) -> None:
    shuffled = _passages()
    rng.shuffle(shuffled)
    chosen = choose_passage_pairs(_passages(), seed, count)
    assert len(chosen) <= count
    assert _indices(chosen) == _indices(choose_passage_pairs(shuffled, seed, count))


@pytest.mark.parametrize("passages", [[], _passages()[-1:], _passages()[:2]])
def test_a_label_without_two_matching_sections_gives_no_pair(passages: list[Passage]) -> None:
    assert choose_passage_pairs(passages, seed=0, count=12) == []
