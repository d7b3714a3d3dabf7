"""Contexts of a label: its topics with the questions on them, and passages for a model to write on."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.generation.contexts import Context, GenerationConfig, choose_passage_pairs, make_contexts
from fdarx_core.generation.library import load_library, role_of, section_pairs
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.generation.tasks import GENERATE_FACTUAL
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topic_questions import topic_question, topic_wordings
from fdarx_core.records import Passage
from tests.generation.made_labels import (
    CONTRAINDICATIONS,
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
    assert context.task == GENERATE_FACTUAL.name and context.passages == [0]
    assert item == {
        "question": topic_question(PARTNER.answered, "Velorin", WORDING),
        "answer": DIGOXIN,
        "evidence": ["Velorin raised the AUC of digoxin by 22%.", "Monitor digoxin concentrations in all patients."],
        "type": "factual",
        "difficulty": "several",
        "twin": {"question": topic_question(Topic("partner", "lithium"), "Velorin", WORDING), "changed": "lithium"},
    }
    assert context.template == WORDING
    assert context.category == context.twin_category == "Drug Interactions"
    assert context.slots["absent"] == ["lithium"]
    assert context.slots["passages"] == [{"section": f"{TITLES[INTERACTIONS]} > Digoxin", "text": DIGOXIN}]


def test_what_the_label_names_is_no_absent_term_for_a_model() -> None:
    pair = TopicPair(Topic("overdose", "nausea"), Topic("overdose", "rash"), "{drug} {term}?", near=True)
    pieces: list[Piece] = [
        (REACTIONS, "Rash and nausea were seen."),
        (OVERDOSAGE, "An overdose of Velorin may cause nausea in adults."),
    ]
    passages = made_passages(*pieces)
    [context] = make_contexts(made_label(passages), passages, GenerationConfig(), [pair])
    assert context.near_miss and context.slots["absent"] == []
    assert context.slots["written"][0]["twin"]["changed"] == "rash"


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


def test_the_outline_marks_the_sections_that_are_asked_about() -> None:
    [context] = contexts(PARTNER)
    lines = context.slots["outline"].split("\n")
    assert lines == [
        f"{one.section_path} (asked)" if one.doc_chunk_index == 0 else one.section_path for one in PASSAGES
    ]


def test_the_rules_write_on_topics_alone_and_a_model_on_passages_too() -> None:
    by_rules, by_model = contexts(PARTNER), contexts(PARTNER, by_model=True)
    assert [one.id for one in by_model[:1]] == [one.id for one in by_rules]
    assert len(by_model) > len(by_rules)
    assert all(one.slots["written"] == [] for one in by_model[1:])
    assert not any(one.template or one.category for one in by_model[1:])
    assert len({one.id for one in by_model}) == len(by_model)


def test_passages_for_a_model_are_of_all_sections_within_their_bound() -> None:
    texts = [
        "Velorin is given with care and is stopped in any patient whose liver tests rise above three times normal."
    ]
    many = made_passages(*((code, f"{text} {at}") for code in TITLES for at in range(4) for text in texts))
    for count in (0, 3, 8, 40):
        made = make_contexts(
            made_label(many), many, GenerationConfig(passages=count, section_pairs=0), [], by_model=True
        )
        asked = Counter(many[one.passages[0]].core_code for one in made)
        assert sum(asked.values()) == min(count, len([one for one in many if one.core_code in asked]) or count)
        assert all(one.slots["k"] == GenerationConfig().pairs_per_passage for one in made)
        if count >= 40:
            assert len(asked) >= 9
    assert max(asked.values()) - min(asked.values()) <= 1


def test_short_passages_are_not_for_a_model() -> None:
    short = made_passages((WARNINGS, "Liver failure was seen."))
    assert make_contexts(made_label(short), short, GenerationConfig(), [], by_model=True) == []


def test_a_model_writes_twins_on_topics_alone() -> None:
    made = contexts(PARTNER, by_model=True, passages=20)
    assert [one.slots["absent"] for one in made if one.slots["about"]] == [["lithium"]]
    assert all(one.slots["absent"] == [] for one in made if not one.slots["about"])


def test_a_passage_with_a_table_is_to_be_asked_about_its_cells() -> None:
    table = made_passages((REACTIONS, "Nausea | 12%\n" * 12))
    [context] = make_contexts(made_label(table), table, GenerationConfig(section_pairs=0), [], by_model=True)
    assert context.slots["difficulty"] == "table"


SECTIONS = {
    DOSAGE: [
        "The recommended starting dose of Quorvelin is 50 mg once daily. The maximum daily dose is 200 mg.",
        "Reduce the dose to 25 mg daily in patients with severe renal impairment. Take Quorvelin with food.",
    ],
    SUPPLY: ["Quorvelin tablets are available as 50 mg and 100 mg tablets, white and round, marked Q on one side."],
    KINETICS: [
        "The AUC of quorvelin was increased by 80% in patients with severe renal impairment.",
        "Food increases the absorption of quorvelin, with a 40% higher Cmax after a high-fat meal.",
        "The elimination half-life of quorvelin is approximately 22 hours.",
    ],
    CONTRAINDICATIONS: ["Quorvelin is contraindicated in patients with hepatic impairment."],
    WARNINGS: ["Quorvelin can cause fatal hepatotoxicity in patients with hepatic impairment."],
}


def paired_passages() -> list[Passage]:
    return made_passages(*((code, text) for code, listed in SECTIONS.items() for text in listed))


def indices(pairs: Sequence[tuple[object, Passage, Passage]]) -> list[tuple[int, int]]:
    return [(a.doc_chunk_index, b.doc_chunk_index) for _, a, b in pairs]


def test_the_table_gives_reasons_for_each_pair_and_covers_both_label_formats() -> None:
    sections, pairs = load_library("section_pairs")["sections"], load_library("section_pairs")["pairs"]
    assert len(pairs) >= 20
    assert all(pair["why"] and pair["links"] and pair["a"] != pair["b"] for pair in pairs)
    codes = {code for listed in sections.values() for code in listed}
    assert all(re.fullmatch(r"\d{4,5}-\d", code) for code in codes)
    paired = {role for pair in section_pairs() for role in (pair.a, pair.b)}
    needed = {"34068-7", "43685-7", "34071-1", "43682-4", "34090-1"}
    assert needed <= {code for role in paired for code in sections[role]}


def test_each_pair_joins_two_sections_of_the_table_and_comes_once() -> None:
    chosen = choose_passage_pairs(paired_passages(), seed=0, count=50)
    assert chosen
    assert all((role_of(a.core_code), role_of(b.core_code)) == (pair.a, pair.b) for pair, a, b in chosen)
    assert len(set(indices(chosen))) == len(chosen)


def test_pairs_of_sections_take_turns() -> None:
    chosen = choose_passage_pairs(paired_passages(), seed=0, count=50)
    kinds = [(pair.a, pair.b) for pair, _, _ in chosen]
    different = len(set(kinds))
    assert len(set(kinds[:different])) == different > 2


@given(st.integers(0, 10**6), st.integers(0, 20), st.randoms(use_true_random=False))
def test_the_choice_is_bounded_and_depends_on_seed_and_label_alone(seed: int, count: int, rng: random.Random) -> None:
    shuffled = paired_passages()
    rng.shuffle(shuffled)
    chosen = choose_passage_pairs(paired_passages(), seed, count)
    assert len(chosen) <= count
    assert indices(chosen) == indices(choose_passage_pairs(shuffled, seed, count))


@pytest.mark.parametrize("passages", [[], paired_passages()[-1:], paired_passages()[:2]])
def test_a_label_without_two_matching_sections_gives_no_pair(passages: list[Passage]) -> None:
    assert choose_passage_pairs(passages, seed=0, count=12) == []
