"""Questions about what a label never mentions, and their rephrasing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.generation.baseline.refusal import rephrase
from fdarx_core.generation.refusal import RefusalLibrary, refusal_library, refusal_questions

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
ENTITIES = [(kind, entity) for kind, listed in refusal_library().entities.items() for entity in listed]


def test_the_library_is_large_and_covers_all_topics() -> None:
    library = refusal_library()
    assert len(ENTITIES) >= 400
    assert len(library.templates) >= 30
    assert {template.category for template in library.templates} == CATEGORIES
    assert len({entity for _, entity in ENTITIES}) == len(ENTITIES)


def test_questions_differ_in_entity_template_and_topic() -> None:
    drafts = refusal_questions(LABEL, "Quorvelin", "set-1", seed=0, count=9)
    assert len(drafts) == 9
    assert {draft.category for draft in drafts} == CATEGORIES
    assert len({draft.entity for draft in drafts}) == len({draft.template for draft in drafts}) == 9
    for draft in drafts:
        assert draft.question == draft.template.format(drug="Quorvelin", entity=draft.entity)
        assert len(draft.question) <= 200


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
        return {draft.entity for draft in drafts}

    assert entity in asked("effects expressed elsewhere")
    assert entity not in asked(f"effects expressed elsewhere: {mention}.")


def test_the_drug_is_never_asked_about_as_an_entity() -> None:
    drafts = [d for seed in range(100) for d in refusal_questions("", "Colchicine Tablets", "s", seed, 60)]
    assert not any("colchicine" in draft.entity.lower() for draft in drafts)


@given(st.text(max_size=300), st.text(max_size=60), st.text(max_size=20), st.integers(0, 9), st.integers(0, 70))
def test_any_text_gives_absent_entities_again_and_again(
    text: str, drug: str, set_id: str, seed: int, count: int
) -> None:
    drafts = refusal_questions(text, drug, set_id, seed, count)
    assert drafts == refusal_questions(text, drug, set_id, seed, count)
    assert len(drafts) <= count
    assert len({draft.entity for draft in drafts}) == len(drafts)
    for draft in drafts:
        assert draft.entity.lower() not in f"{text} {drug}".lower()
        assert drug in draft.question


@given(st.sampled_from(ENTITIES), st.text(min_size=1, max_size=60), st.sampled_from(refusal_library().templates))
def test_rephrasing_keeps_drug_and_entity(pair: tuple[str, str], drug: str, template: object) -> None:
    text = template.text.format(drug=drug, entity=pair[1])  # type: ignore[attr-defined]
    again = rephrase({"drug": drug, "entity": pair[1], "question": text})
    assert drug in again
    assert pair[1] in again
    assert len(again) <= 200 or again == text
    assert again == rephrase({"drug": drug, "entity": pair[1], "question": text})


def test_rephrasing_gives_other_words() -> None:
    for template in refusal_library().templates:
        question = template.text.format(drug="Quorvelin", entity="malaria")
        assert rephrase({"drug": "Quorvelin", "entity": "malaria", "question": question}) != question


@given(st.text(max_size=250))
def test_rephrasing_a_question_of_no_template_keeps_its_words(question: str) -> None:
    again = rephrase({"drug": "Quorvelin", "entity": "malaria", "question": question})
    assert question[1:] in again


def test_a_library_with_a_kind_that_no_template_asks_about_is_refused() -> None:
    with pytest.raises(ValueError, match="kinds with entities but no template"):
        RefusalLibrary.model_validate({"entities": {"drug": {"x": []}}, "templates": []})
