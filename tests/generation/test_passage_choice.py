"""Which passages a model is asked about: quotas over sections, passages that say nothing, and pairs of passages."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.generation.library import load_library, role_of, section_pairs, section_quotas
from fdarx_core.generation.passage_choice import choose_passage_pairs, choose_passages, is_informative
from fdarx_core.records import Passage
from tests.generation.made_labels import (
    CONTRAINDICATIONS,
    DOSAGE,
    KINETICS,
    REACTIONS,
    SUPPLY,
    TITLES,
    WARNINGS,
    made_label,
    made_passages,
)

TEXT = "Velorin is given with care and is stopped in any patient whose liver tests rise above three times normal."
MANY = made_passages(*((code, f"{TEXT} {at}") for code in TITLES for at in range(4)))


@pytest.mark.parametrize("count", [0, 3, 12, 24, 100])
def test_every_section_has_a_passage_before_any_has_two(count: int) -> None:
    chosen = choose_passages(MANY, seed=0, count=count)
    asked = Counter(passage.core_code for passage, _ in chosen)
    assert len(chosen) == len({passage.doc_chunk_index for passage, _ in chosen}) == min(count, len(MANY))
    if count <= len(TITLES):
        assert set(asked.values()) <= {1}
    else:
        assert set(asked) == set(TITLES)


def test_sections_that_decide_have_more_passages() -> None:
    asked = Counter(passage.core_code for passage, _ in choose_passages(MANY, seed=0, count=24))
    assert asked[DOSAGE] > asked[SUPPLY] and asked[WARNINGS] > asked[SUPPLY]


def test_what_patients_read_repeats_the_label_and_is_not_asked() -> None:
    guide = Passage("set-1", 0, 0, "42231-1", "42231-1", "", "Guide", "Guide", TEXT)
    assert choose_passages([guide], seed=0, count=5) == []


def test_the_kinds_of_a_section_take_turns_and_differ_between_labels() -> None:
    one = [kind for passage, kind in choose_passages(MANY, seed=0, count=100) if passage.core_code == CONTRAINDICATIONS]
    assert len(set(one)) >= 2
    firsts = set()
    for number in range(20):
        passages = made_passages((CONTRAINDICATIONS, "Anuria, gout, porphyria, asthma, and severe renal impairment."))
        for passage in passages:
            passage.set_id = f"set-{number}"
        [(_, kind)] = choose_passages(passages, seed=0, count=1)
        firsts.add(kind)
    assert len(firsts) == len(section_quotas()["contraindications"].kinds)


def test_a_kind_is_preferred_only_where_the_passage_can_carry_it() -> None:
    dry = made_passages((KINETICS, "Velorinib is metabolized in the liver and excreted in the urine without change."))
    kinds = {kind for seed in range(20) for _, kind in choose_passages(dry, seed=seed, count=1)}
    assert kinds and not any("quantity" in kind for kind in kinds)


@pytest.mark.parametrize("marks", ["---", ("1.", "2.", "3.")])
def test_a_list_is_asked_for_whether_its_items_have_bullets_or_numbers(marks: Sequence[str]) -> None:
    items = "Take it with food.", "Do not crush the tablet.", "Swallow it whole."
    passages = made_passages((WARNINGS, "\n".join(map(" ".join, zip(marks, items, strict=True)))))
    assert any("list" in kind for seed in range(20) for _, kind in choose_passages(passages, seed=seed, count=1))


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("Nausea | VELORIN %: 12 | Placebo %: 4\nRash | VELORIN %: 2 | Placebo %: 1", True),
        ("Digoxin | Clinical Impact: | Concentrations of digoxin rise.", False),
    ],
)
def test_cells_are_asked_for_where_a_table_has_figures(text: str, table: bool) -> None:
    [(_, kind)] = choose_passages(made_passages((REACTIONS, text)), seed=0, count=1)
    assert ("row" in kind) == table


@pytest.mark.parametrize(
    "text",
    [
        "Table 3 shows the adverse reactions in these trials.",
        "The recommended dosages are shown in Table 1 and described below.",
        "See Dosage and Administration (2.3) for use in older adults.",
        "The following adverse reactions are discussed in greater detail in other sections of the labeling:",
        "[see Warnings and Precautions (5.1), Drug Interactions (7)]",
        "Adverse reactions that occurred in at least 2% of patients are listed in Table 2.",
    ],
)
def test_a_passage_that_only_points_elsewhere_says_nothing(text: str) -> None:
    assert not is_informative(text)


@pytest.mark.parametrize(
    "text",
    [
        "Velorin is contraindicated in patients with hypersensitivity to velorinib [see Warnings (5.1)].",
        "Table 1 shows the doses. Start at 25 mg once daily in adults.",
        "Dizziness | 8 | 3",
        "Velorin tablets are indicated for partial-onset seizures in adults.",
        "Safety and effectiveness in pediatric patients have not been established.",
        "Anuria. Severe hepatic impairment. Gout attacks.",
    ],
)
def test_a_short_passage_can_say_something(text: str) -> None:
    assert is_informative(text)


SECTIONS = {
    DOSAGE: [
        "The recommended starting dose of Quorvelin is 50 mg once daily. The maximum daily dose is 200 mg.",
        "Reduce the dose to 25 mg daily in patients with severe renal impairment or hepatotoxicity. Take it with food.",
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
    chosen = choose_passage_pairs(made_label(), paired_passages(), seed=0, count=50)
    assert chosen
    assert all((role_of(a.core_code), role_of(b.core_code)) == (pair.a, pair.b) for pair, a, b in chosen)
    assert len(set(indices(chosen))) == len(chosen)


def test_pairs_of_sections_take_turns() -> None:
    chosen = choose_passage_pairs(made_label(), paired_passages(), seed=0, count=50)
    kinds = [(pair.a, pair.b) for pair, _, _ in chosen]
    different = len(set(kinds))
    assert len(set(kinds[:different])) == different > 2


@given(st.integers(0, 10**6), st.integers(0, 20), st.randoms(use_true_random=False))
def test_the_choice_is_bounded_and_depends_on_seed_and_label_alone(seed: int, count: int, rng: random.Random) -> None:
    shuffled = paired_passages()
    rng.shuffle(shuffled)
    chosen = choose_passage_pairs(made_label(), paired_passages(), seed, count)
    assert len(chosen) <= count
    assert indices(chosen) == indices(choose_passage_pairs(made_label(), shuffled, seed, count))


@pytest.mark.parametrize("passages", [[], paired_passages()[-1:], paired_passages()[:2]])
def test_a_label_without_two_matching_sections_gives_no_pair(passages: list[Passage]) -> None:
    assert choose_passage_pairs(made_label(), passages, seed=0, count=12) == []
