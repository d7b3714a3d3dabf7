"""Contexts of a label: its topics with the questions on them, and passages for a model to write on."""

from __future__ import annotations

import pytest

from fdarx_core.generation.contexts import Context, GenerationConfig, make_contexts
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.generation.tasks import GENERATE_FACTUAL, GENERATE_MULTIHOP
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topic_questions import topic_wordings
from tests.generation.made_labels import (
    DOSAGE,
    INTERACTIONS,
    KINETICS,
    OVERDOSAGE,
    REACTIONS,
    SUPPLY,
    TITLES,
    WARNINGS,
    Piece,
    made_label,
    made_passages,
)

DIGOXIN = "Velorin raised the AUC of digoxin by 22%. Monitor digoxin concentrations in all patients."
LISTED = "Stop Velorin in patients with:\n- acute pancreatitis\n- severe abdominal pain"
PIECES: list[Piece] = [
    (INTERACTIONS, "Digoxin", DIGOXIN),
    (WARNINGS, "Pancreatitis", LISTED),
    (REACTIONS, "Nausea | VELORIN (N = 200) %: 12 | Placebo (N = 199) %: 4"),
    (DOSAGE, "The maximum recommended dose is 1,200 mg per day."),
    (SUPPLY, "Velorin tablets are supplied as 200 mg and 400 mg tablets, white and scored."),
    (
        KINETICS,
        OVERDOSAGE,
        "Velorinib is absorbed within two hours, and food does not change that in men or women, as two small studies "
        "show.",
    ),
]
PASSAGES = made_passages(*PIECES)
LABEL = made_label(PASSAGES)
WORDING = topic_wordings(Topic("partner", "digoxin"))[0]
PARTNER = TopicPair(Topic("partner", "digoxin"), Topic("partner", "lithium"), WORDING)


def contexts(*pairs: TopicPair, by_model: bool = False, **amounts: int) -> list[Context]:
    return make_contexts(LABEL, PASSAGES, GenerationConfig(**amounts), pairs, by_model=by_model)


def item_of(pair: TopicPair) -> tuple[Context, dict[str, object]]:
    [context] = contexts(pair)
    [item] = context.slots["written"]
    return context, item


def test_a_pair_of_topics_is_written_with_its_evidence_and_its_twin() -> None:
    context, item = item_of(PARTNER)
    assert PARTNER.answered is not None
    assert context.task == GENERATE_FACTUAL.name and context.passages == [0]
    assert item == {
        "question": WORDING.format(drug="Velorin", term=PARTNER.answered.name),
        "answer": DIGOXIN,
        "evidence": ["Velorin raised the AUC of digoxin by 22%.", "Monitor digoxin concentrations in all patients."],
        "type": "factual",
        "difficulty": "several",
        "twin": {
            "kind": "absent",
            "entity": "lithium",
            "attribute": "",
            "question": WORDING.format(drug="Velorin", term="lithium"),
        },
    }
    assert context.template == WORDING
    assert context.category == context.twin_category == "Drug Interactions"
    assert context.slots["absent"] == ["lithium"]
    assert context.slots["passages"] == [{"section": f"{TITLES[INTERACTIONS]} > Digoxin", "table": "", "text": DIGOXIN}]


def test_what_the_label_names_is_no_absent_term_for_a_model() -> None:
    pair = TopicPair(Topic("overdose", "nausea"), Topic("overdose", "rash"), "{drug} {term}?", near=True)
    pieces: list[Piece] = [
        (REACTIONS, "Rash and nausea were seen."),
        (OVERDOSAGE, "An overdose of Velorin may cause nausea in adults."),
    ]
    passages = made_passages(*pieces)
    [context] = make_contexts(made_label(passages), passages, GenerationConfig(), [pair])
    assert context.slots["absent"] == []
    twin = context.slots["written"][0]["twin"]
    assert (twin["kind"], twin["entity"], twin["attribute"]) == ("near_miss", "rash", "overdose")


def test_a_topic_without_a_twin_is_asked_alone() -> None:
    context, item = item_of(TopicPair(PARTNER.answered, None, WORDING))
    assert item["twin"] is None and context.twin_category == "" and context.slots["absent"] == []


@pytest.mark.parametrize(
    ("answered", "kind", "difficulty"),
    [
        (Topic("risk", "pancreatitis"), "list", "direct"),
        (Topic("reaction", "nausea"), "numeric", "table"),
        (Topic("partner", "digoxin"), "factual", "several"),
    ],
)
def test_the_kind_and_difficulty_follow_from_the_statements(answered: Topic, kind: str, difficulty: str) -> None:
    _, item = item_of(TopicPair(answered, None, topic_wordings(answered)[0]))
    assert (item["type"], item["difficulty"]) == (kind, difficulty)


def test_what_the_label_does_not_answer_or_is_not_silent_on_makes_no_context() -> None:
    assert contexts(TopicPair(Topic("partner", "warfarin"), Topic("partner", "lithium"), WORDING)) == []
    assert contexts(TopicPair(Topic("partner", "digoxin"), Topic("risk", "pancreatitis"), WORDING)) == []


def test_the_outline_marks_the_sections_that_are_asked_about_and_the_own_one() -> None:
    one, other = contexts(PARTNER, TopicPair(Topic("risk", "pancreatitis"), None, WORDING))
    marks = [line.partition(" (")[2] for line in one.slots["outline"].split("\n")]
    assert marks == ["here)", "asked)", "", "", "", ""]
    assert [line.partition(" (")[2] for line in other.slots["outline"].split("\n")][:2] == ["asked)", "here)"]
    assert one.slots["outline"].replace(" (here)", "").replace(" (asked)", "").split("\n") == [
        piece.section_path for piece in PASSAGES
    ]


def test_the_rules_write_on_topics_alone_and_a_model_on_passages_too() -> None:
    by_rules, by_model = contexts(PARTNER), contexts(PARTNER, by_model=True)
    assert [one.id for one in by_model[:1]] == [one.id for one in by_rules]
    assert len(by_model) > len(by_rules)
    assert all(one.slots["written"] == [] for one in by_model[1:])
    assert not any(one.template or one.category for one in by_model[1:])
    assert len({one.id for one in by_model}) == len(by_model)


def test_a_model_gets_the_terms_on_which_the_label_is_silent_where_the_section_speaks_of_such_things() -> None:
    made = contexts(PARTNER, by_model=True, passages=20)
    assert [one.slots["absent"] for one in made if one.slots["about"]] == [["lithium"]]
    absent = {one.slots["passages"][0]["section"]: one.slots["absent"] for one in made if not one.slots["about"]}
    assert absent.pop(f"{TITLES[INTERACTIONS]} > Digoxin") == ["lithium"]
    assert absent and not any(absent.values())


def test_a_substance_of_the_label_is_not_offered_as_absent() -> None:
    """Labels of other drugs name it as a partner, and this label may call it by another name."""
    own = made_label(PASSAGES, substances=["velorinib mesylate", "lithium carbonate"])
    made = make_contexts(own, PASSAGES, GenerationConfig(), [PARTNER], by_model=True)
    assert not any("lithium" in one.slots["absent"] for one in made)


def test_hops_within_one_section_are_not_for_a_model() -> None:
    rows = "Nausea | VELORIN (N = 200) %: 12\nHeadache | VELORIN (N = 200) %: 4"
    pieces: list[Piece] = [(REACTIONS, rows), (SUPPLY, "Velorin tablets are supplied as 200 mg tablets, white.")]
    passages = made_passages(*pieces)
    made = make_contexts(made_label(passages), passages, GenerationConfig(), [], by_model=True)
    hops = [one for one in made if one.task == GENERATE_MULTIHOP.name]
    assert all(len({passages[at].core_code for at in one.passages}) == 2 for one in hops)
