"""Which passages are put together for multi-hop questions."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.generation.baseline.multihop import multihop_questions
from fdarx_core.generation.pairs import choose_pairs, section_pairs
from fdarx_core.generation.sections import role_of
from fdarx_core.records import Passage

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
    pairs = section_pairs()
    assert len(pairs) >= 20
    assert all(pair.why and pair.links and not set(pair.codes_a) & set(pair.codes_b) for pair in pairs)
    assert all(re.fullmatch(r"\d{4,5}-\d", code) for pair in pairs for code in pair.codes_a + pair.codes_b)
    assert {"34068-7", "43685-7", "34071-1", "43682-4", "34090-1"} <= {c for p in pairs for c in p.codes_a + p.codes_b}


def test_each_pair_joins_two_sections_of_the_table() -> None:
    allowed = {(pair.role_a, pair.role_b) for pair in section_pairs()}
    chosen = choose_pairs(_passages(), seed=0, count=50)
    assert chosen
    assert all((role_of(a.core_code), role_of(b.core_code)) in allowed for a, b in chosen)
    assert len(set(_indices(chosen))) == len(chosen)


def _asks(a: Passage, b: Passage) -> bool:
    titles = {"drug": "Quorvelin", "section_title_a": "", "section_title_b": ""}
    codes = {"section_code_a": a.core_code, "section_code_b": b.core_code}
    return bool(multihop_questions({**titles, **codes, "context_a": a.text, "context_b": b.text}))


def test_passages_with_something_to_ask_about_come_first_and_from_different_sections() -> None:
    chosen = choose_pairs(_passages(), seed=0, count=50)
    asking = [_asks(a, b) for a, b in chosen]
    assert 4 <= sum(asking) < len(asking)
    assert asking == sorted(asking, reverse=True)
    assert len({(a.core_code, b.core_code) for a, b in chosen[:4]}) >= 3


@given(st.integers(0, 10**6), st.integers(0, 20), st.randoms(use_true_random=False))
def test_the_choice_is_bounded_and_depends_on_seed_and_label_alone(seed: int, count: int, rng: random.Random) -> None:
    shuffled = _passages()
    rng.shuffle(shuffled)
    chosen = choose_pairs(_passages(), seed, count)
    assert len(chosen) <= count
    assert _indices(chosen) == _indices(choose_pairs(shuffled, seed, count))


@pytest.mark.parametrize("passages", [[], _passages()[-1:], _passages()[:2]])
def test_a_label_without_two_matching_sections_gives_no_pair(passages: list[Passage]) -> None:
    assert choose_pairs(passages, seed=0, count=12) == []
