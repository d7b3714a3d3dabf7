"""Pairs for fine-tuning: reading, near-duplicates, and the split."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fdarx_core.records import QuestionAnswer
from fdarx_core.storage import RunDirectory, StorageError, write_records
from fdarx_core.tuning.pairs import (
    MIN_ANSWER_WORDS,
    MIN_SIMILARITY,
    NEEDED,
    PARTS,
    SHARES,
    TrainingPair,
    near_duplicate_groups,
    near_duplicates,
    part_of,
    read_pairs,
    split_pairs,
)
from tests.conftest import _data


def similarity(one: str, other: str) -> float:
    """1 minus the Levenshtein distance over the longer text's length; 1 of two empty texts."""
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        here = [row]
        for column, wanted in enumerate(other, 1):
            here.append(min(above[column] + 1, here[-1] + 1, above[column - 1] + (letter != wanted)))
        above = here
    longest = max(len(one), len(other))
    return 1.0 - above[-1] / longest if longest else 1.0


LEAST = st.sampled_from([0.5, 0.7, 0.9, 0.95, 1.0])


def compared(texts: Sequence[str], least: float) -> set[tuple[int, int]]:
    """Each text that stood before, with its first place; and every two of the others."""
    first = {text: at for at, text in reversed(list(enumerate(texts)))}
    again = {(first[text], at) for at, text in enumerate(texts) if first[text] != at}
    alike = (pair for pair in combinations(first.items(), 2) if similarity(pair[0][0], pair[1][0]) >= least)
    return again | {(min(a, b), max(a, b)) for (_, a), (_, b) in alike}


def found(texts: Sequence[str], least: float) -> list[tuple[int, int]]:
    return sorted((min(pair), max(pair)) for pair in near_duplicates(texts, least))


@given(st.lists(st.text(max_size=12), max_size=8), LEAST)
@example(["", "", "a"], 0.9)
@example(["a" * 9 + "b", "a" * 10, "a" * 9], 0.9)
@example(["\ud800𝒳é", "\ud800𝒳e"], 0.5)
def test_any_texts(texts: list[str], least: float) -> None:
    assert found(texts, least) == sorted(compared(texts, least))


@st.composite
def edited(draw: st.DrawFn) -> list[str]:
    """Texts made of one by about as many edits as the threshold allows, one edit next to another or far from it."""
    base = draw(st.text("abc de", min_size=20, max_size=60))
    made = [base]
    for _ in range(draw(st.integers(1, 5))):
        letters = list(draw(st.sampled_from(made)))
        for _ in range(draw(st.integers(0, len(letters) // 8))):
            at = draw(st.integers(0, len(letters) - 1))
            letters[at : at + draw(st.integers(0, 1))] = draw(st.text("abcxyz", max_size=2))
        made.append("".join(letters))
    return made


@given(edited(), LEAST)
def test_texts_at_the_threshold(texts: list[str], least: float) -> None:
    assert found(texts, least) == sorted(compared(texts, least))


def test_every_distance_about_the_threshold_over_many_blocks() -> None:
    """More texts than one block holds, in which the only ones alike are known."""
    drawn = random.Random(3)
    texts: list[str] = []
    alike: set[tuple[int, int]] = set()
    for number in range(200):
        text = "".join(drawn.choices("abcdefghijklmnopqrstuvwxyz ", k=40 + number))
        edits = number % 2 + len(text) // 10  # as many as are allowed, or one more
        spots = drawn.sample(range(len(text)), edits)
        if not number % 2:
            alike.add((len(texts), len(texts) + 1))
        texts += [text, "".join("#" if at in spots else letter for at, letter in enumerate(text))]
    assert set(found(texts, 0.9)) == alike


def test_texts_of_many_letters() -> None:
    long = "ab" * 50_000
    assert found([long, long + "b" * 11_000, long + "b" * 11_200, "b" * 99_000], 0.9) == [(0, 1), (1, 2)]


WORDS = ["dose", "of", "Dose", "renal", "is", "5", "10", "mg", "daily", "", ","]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=6, max_size=13).map(" ".join)


def similarity_pair_splits(one: str, other: str) -> float:
    """After case and spaces are made equal."""
    return similarity(*(" ".join(text.casefold().split()) for text in (one, other)))


def nearly_equal(one: TrainingPair, other: TrainingPair) -> bool:
    if similarity_pair_splits(one.question, other.question) >= MIN_SIMILARITY:
        return True
    if (
        min(len(one.answer.split()), len(other.answer.split())) >= MIN_ANSWER_WORDS
        and similarity_pair_splits(one.answer, other.answer) >= MIN_SIMILARITY
    ):
        return True
    return similarity_pair_splits(f"{one.question} {one.answer}", f"{other.question} {other.answer}") >= MIN_SIMILARITY


def alike(one: TrainingPair, other: TrainingPair) -> bool:
    return len(near_duplicate_groups([one, other])) == 1


def made(texts: Sequence[tuple[str, str]]) -> list[TrainingPair]:
    return [TrainingPair(f"{at:04d}", question, answer, "") for at, (question, answer) in enumerate(texts)]


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=2))
@example([("dose of 5", "yes"), ("Dose  of 5", "no")])
@example([("a" * 10, "yes"), ("a" * 9 + "b", "no")])
@example([("a" * 9, "yes"), ("a" * 8 + "b", "no")])
def test_alike_is_what_the_textbook_says(texts: list[tuple[str, str]]) -> None:
    one, other = made(texts)
    assert alike(one, other) == nearly_equal(one, other)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_groups_hold_each_pair_once_and_all_that_are_alike(texts: list[tuple[str, str]]) -> None:
    pairs = made(texts)
    found = near_duplicate_groups(pairs)
    assert sorted(at for members in found for at in members) == list(range(len(pairs)))
    where = {at: number for number, members in enumerate(found) for at in members}
    for one, other in combinations(range(len(pairs)), 2):
        if nearly_equal(pairs[one], pairs[other]):
            assert where[one] == where[other]


def test_groups_are_linked_by_what_is_between() -> None:
    a, b, c = "a" * 20, "a" * 18 + "bb", "a" * 16 + "bbbb"
    assert sorted(map(len, near_duplicate_groups(made([(a, "yes"), (b, "no"), (c, "perhaps"), ("other", "x")])))) == [
        1,
        3,
    ]


def test_short_answers_make_no_pairs_alike() -> None:
    questions = ["May the tablets be crushed before use?", "Is the drug approved for children under six?"]
    assert not alike(*made([(question, "No.") for question in questions]))
    long = "No, the tablets must be swallowed whole with a glass of water."
    assert alike(*made([(question, long) for question in questions]))


def questions(number: int) -> list[TrainingPair]:
    return made(
        [(f"{at * 7919 % 10007} what holds for part {at}?", f"{at} answers {at * 104729}") for at in range(number)]
    )


def test_split_goes_by_seed_and_content_alone() -> None:
    pairs = questions(300)
    first = split_pairs(pairs, 0)
    assert [one.id for one in first] == [one.id for one in pairs]
    by_id = {one.id: one.part for one in first}
    assert {one.id: one.part for one in split_pairs(pairs[::-1], 0)} == by_id
    assert {one.id: one.part for one in split_pairs(pairs, 1)} != by_id


def test_split_has_about_the_shares() -> None:
    pairs = questions(300)
    parts = Counter(one.part for seed in range(8) for one in split_pairs(pairs, seed))
    total = sum(parts.values())
    assert parts.keys() == SHARES.keys()
    assert all(abs(parts[part] / total - SHARES[part]) < 0.025 for part in PARTS), parts


def test_an_empty_part_is_refused() -> None:
    needed = (
        r"in 2 groups of near-duplicates is in the .* part; hardly any split of 90 groups leaves .* give more pairs"
    )
    with pytest.raises(ValueError, match=f"none of 3 pairs {needed}"):
        split_pairs([*questions(2), replace(questions(2)[0], id="copy")], 0)


def test_of_the_needed_pairs_hardly_any_split_has_an_empty_part() -> None:
    pairs = questions(NEEDED)
    splits = [Counter(part_of(pair.id, seed) for pair in pairs) for seed in range(300)]
    assert sum(len(counts) < len(PARTS) for counts in splits) <= 9


def test_pairs_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    rows: list[dict[str, object]] = [
        {"title": "T", "question": "What is a label?", "answer": "Answer:  A text."},
        {"title": "T", "question": "And this?", "answer": "Answer:"},
        {"question": "No answer?"},
        {"question": "Which of them?", "ground_truths": ["The first.", "The second."], "id": "one"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)) + "\nnot json\n")
    pairs, rejects = read_pairs(str(file))
    assert [(one.question, one.answer, one.about) for one in pairs] == [
        ("What is a label?", "A text.", "T"),
        ("Which of them?", "The first.", "one"),
    ]
    assert sorted(one.reason for one in rejects) == ["no_answer", "no_reference", "not_json"]


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps({"question": "What?", "answer": "answer :"}) + "\n")
    with pytest.raises(ValueError, match="holds no pair to train on: 1 rows were left out"):
        read_pairs(str(file))


def test_pairs_of_a_build_leave_refusals_out(tmp_path: Path) -> None:
    run = RunDirectory.begin(str(tmp_path / "run"), job="build_benchmark", config={}, versions={})
    kinds = [("a", "factual"), ("b", "refusal"), ("c", "multihop")]
    asked = [QuestionAnswer(name, kind, kind, "", "", "label", "", f"Q {name}", f"A {name}") for name, kind in kinds]
    write_records(run.part("questions", 0), asked, QuestionAnswer)
    with pytest.raises(StorageError, match="is an unfinished build"):
        read_pairs(str(tmp_path / "run"))
    run.finish({})
    pairs, rejects = read_pairs(str(tmp_path / "run"))
    assert [(one.id, one.answer, one.about) for one in pairs] == [("a", "A a", "label"), ("c", "A c", "label")]
    assert [(one.id, one.reason) for one in rejects] == [("b", "refusal")]


@pytest.fixture(scope="module")
def real() -> list[TrainingPair]:
    """The official answers of FDA guidelines."""
    return read_pairs(str(_data("guidelines/faq.jsonl")))[0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_real_test_pair_is_near_a_training_pair(real: list[TrainingPair], seed: int) -> None:
    """Counted in full by the library's own function, not by the search that made the groups."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    placed = split_pairs(real, seed)
    train, others = [one for one in placed if one.part == "train"], [one for one in placed if one.part != "train"]
    assert len(real) > 900
    for of in (question_of, both_of, telling_answer_of):
        left, right = ([text for one in rows if (text := of(one))] for rows in (others, train))
        assert left
        assert (
            float(cdist(left, right, scorer=Levenshtein.normalized_similarity, score_cutoff=0.8).max()) < MIN_SIMILARITY
        )


def question_of(pair: TrainingPair) -> str:
    return " ".join(pair.question.casefold().split())


def both_of(pair: TrainingPair) -> str:
    return " ".join(f"{pair.question} {pair.answer}".casefold().split())


def telling_answer_of(pair: TrainingPair) -> str:
    return " ".join(pair.answer.casefold().split()) if len(pair.answer.split()) >= MIN_ANSWER_WORDS else ""


def test_real_pairs_that_are_nearly_equal_are_found(real: list[TrainingPair]) -> None:
    """Guidelines are revised, and their answers come again word for word."""
    counts = Counter(one.group for one in split_pairs(real, 0))
    assert sum(number > 1 for number in counts.values()) >= 15
    assert max(counts.values()) <= 10
