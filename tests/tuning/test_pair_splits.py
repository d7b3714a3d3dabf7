"""Pairs out of files and builds, and their split: nothing that is nearly equal stands on both sides."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fdarx_core.records import QuestionAnswer
from fdarx_core.storage import RunDirectory, StorageError, write_records
from fdarx_core.tuning.likeness import ALIKE, TELLING, groups
from fdarx_core.tuning.pairs import Pair, read_pairs
from fdarx_core.tuning.splits import PARTS, SHARES, split
from tests.conftest import _data
from tests.tuning import textbook

pytest.importorskip("rapidfuzz")

WORDS = ["dose", "of", "Dose", "renal", "is", "5", "10", "mg", "daily", "", ","]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=6, max_size=13).map(" ".join)


def similarity(one: str, other: str) -> float:
    """After case and spaces are made equal."""
    return textbook.similarity(*(" ".join(text.casefold().split()) for text in (one, other)))


def nearly_equal(one: Pair, other: Pair) -> bool:
    if similarity(one.question, other.question) >= ALIKE:
        return True
    if (
        min(len(one.answer.split()), len(other.answer.split())) >= TELLING
        and similarity(one.answer, other.answer) >= ALIKE
    ):
        return True
    return similarity(f"{one.question} {one.answer}", f"{other.question} {other.answer}") >= ALIKE


def alike(one: Pair, other: Pair) -> bool:
    return len(groups([one, other])) == 1


def made(texts: Sequence[tuple[str, str]]) -> list[Pair]:
    return [Pair(f"{at:04d}", question, answer, "") for at, (question, answer) in enumerate(texts)]


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
    found = groups(pairs)
    assert sorted(at for members in found for at in members) == list(range(len(pairs)))
    where = {at: number for number, members in enumerate(found) for at in members}
    for one, other in combinations(range(len(pairs)), 2):
        if nearly_equal(pairs[one], pairs[other]):
            assert where[one] == where[other]


def test_groups_are_linked_by_what_is_between() -> None:
    a, b, c = "a" * 20, "a" * 18 + "bb", "a" * 16 + "bbbb"
    assert sorted(map(len, groups(made([(a, "yes"), (b, "no"), (c, "perhaps"), ("other", "x")])))) == [1, 3]


def test_short_answers_make_no_pairs_alike() -> None:
    questions = ["May the tablets be crushed before use?", "Is the drug approved for children under six?"]
    assert not alike(*made([(question, "No.") for question in questions]))
    long = "No, the tablets must be swallowed whole with a glass of water."
    assert alike(*made([(question, long) for question in questions]))


def questions(number: int) -> list[Pair]:
    return made(
        [(f"{at * 7919 % 10007} what holds for part {at}?", f"{at} answers {at * 104729}") for at in range(number)]
    )


def test_split_goes_by_seed_and_content_alone() -> None:
    pairs = questions(300)
    first = split(pairs, 0)
    assert [one.id for one in first] == [one.id for one in pairs]
    by_id = {one.id: one.part for one in first}
    assert {one.id: one.part for one in split(pairs[::-1], 0)} == by_id
    assert {one.id: one.part for one in split(pairs, 1)} != by_id


def test_split_has_about_the_shares() -> None:
    pairs = questions(300)
    parts = Counter(one.part for seed in range(8) for one in split(pairs, seed))
    total = sum(parts.values())
    assert parts.keys() == SHARES.keys()
    assert all(abs(parts[part] / total - SHARES[part]) < 0.025 for part in PARTS), parts


def test_an_empty_part_is_refused() -> None:
    with pytest.raises(ValueError, match=r"none of 2 pairs fell into the .* part; give more"):
        split(questions(2), 0)


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
    with pytest.raises(ValueError, match="holds no pair to tune on: 1 rows were left out"):
        read_pairs(str(file))


def test_pairs_of_a_build_leave_refusals_out(tmp_path: Path) -> None:
    run = RunDirectory.begin(str(tmp_path / "run"), job="build_benchmark", config={}, versions={})
    kinds = [("a", "factual"), ("b", "refusal"), ("c", "multihop")]
    asked = [QuestionAnswer(name, kind, kind, "", "", "label", "", f"Q {name}", f"A {name}") for name, kind in kinds]
    write_records(run.part("questions", 0), asked, QuestionAnswer)
    with pytest.raises(StorageError, match="no finished run of fdarx build"):
        read_pairs(str(tmp_path / "run"))
    run.finish({})
    pairs, rejects = read_pairs(str(tmp_path / "run"))
    assert [(one.id, one.answer, one.about) for one in pairs] == [("a", "A a", "label"), ("c", "A c", "label")]
    assert [(one.id, one.reason) for one in rejects] == [("b", "refusal")]


@pytest.fixture(scope="module")
def real() -> list[Pair]:
    """The official answers of FDA guidelines."""
    return read_pairs(str(_data("guidelines/faq.jsonl")))[0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_real_test_pair_is_near_a_training_pair(real: list[Pair], seed: int) -> None:
    """Counted in full by the library's own function, not by the search that made the groups."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    placed = split(real, seed)
    train, others = [one for one in placed if one.part == "train"], [one for one in placed if one.part != "train"]
    assert len(real) > 900
    for of in (question_of, both_of, telling_answer_of):
        left, right = ([text for one in rows if (text := of(one))] for rows in (others, train))
        assert left
        assert float(cdist(left, right, scorer=Levenshtein.normalized_similarity, score_cutoff=0.8).max()) < ALIKE


def question_of(pair: Pair) -> str:
    return " ".join(pair.question.casefold().split())


def both_of(pair: Pair) -> str:
    return " ".join(f"{pair.question} {pair.answer}".casefold().split())


def telling_answer_of(pair: Pair) -> str:
    return " ".join(pair.answer.casefold().split()) if len(pair.answer.split()) >= TELLING else ""


def test_real_pairs_that_are_nearly_equal_are_found(real: list[Pair]) -> None:
    """Guidelines are revised, and their answers come again word for word."""
    counts = Counter(one.group for one in split(real, 0))
    assert sum(number > 1 for number in counts.values()) >= 15
    assert max(counts.values()) <= 10
