from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.filters.duplicates import drop_duplicates
from fdarx_core.records import QuestionAnswer


def asked(name: str, question: str, answer: str = "40 mg once daily", entity: str = "") -> QuestionAnswer:
    kind = "refusal" if entity else "factual"
    return QuestionAnswer(name, kind, kind, "section", "", "set-1", "Velorin", question, answer, entity=entity)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("What is the dose of Velorin?", "a"), ("What is the dose of Velorin?", "a"), "exact_duplicate"),
        (("What is the dose of Velorin?", "a"), ("what is the  dose of VELORIN® ?", "a"), "exact_duplicate"),
        (("What is the dose of Velorin?", "a"), ("What are the doses of Velorin?", "b"), "merged_answer"),
        (("What is the half-life of Velorin?", "a"), ("What is Velorin's terminal half-life?", "A."), "near_duplicate"),
        (("What is the half-life of Velorin?", "a"), ("What is Velorin's terminal half-life?", "b"), ""),
        (("What is the dose of Velorin at 20 mg?", "a"), ("What is the dose of Velorin at 40 mg?", "a"), ""),
        (("When should Velorin be taken?", "a"), ("How should Velorin be taken?", "b"), ""),
        (("Is Velorin given with an inhibitor after an inducer?", "a"),
         ("Is Velorin given with an inducer after an inhibitor?", "b"), ""),
        (("What is the dose of Velorin in adults?", "a"), ("Is Velorin a substrate of P-gp?", "a"), ""),
    ],
)  # fmt: skip
def test_pairs(first: tuple[str, str], second: tuple[str, str], expected: str) -> None:
    kept, rejects = drop_duplicates([asked("1", *first), asked("2", *second)])
    assert [reject.reason for reject in rejects] == ([expected] if expected else [])
    assert kept[0].id == "1"


def test_a_reject_names_the_question_that_stayed() -> None:
    _, [reject] = drop_duplicates([asked("1", "What is Velorin?"), asked("2", "What is VELORIN?")])
    assert (reject.id, reject.stage, reject.detail, reject.set_id) == ("2", "duplicates", "1", "set-1")


def test_refusals_of_different_entities_are_different_questions() -> None:
    template = (
        "What laboratory value must a patient with long-standing {} have reached before Velorin therapy may start?"
    )
    rows = [asked(name, template.format(name), "Information not found!", name) for name in ("gout", "ocular gout")]
    assert drop_duplicates(rows) == (rows, [])


def supported(name: str, answer: str, *passages: tuple[int, bool], question: str = "When is Velorin not given?") -> Any:
    """A question with an answer from these passages."""
    row = asked(name, question, answer)
    places, has = [place for place, _ in passages], [one for _, one in passages]
    return replace(row, gold_passages=places, gold_codes=["34070-3"] * len(places), gold_has_answer=has)


def test_different_answers_are_joined_with_their_passages() -> None:
    rows = [supported("1", "In patients with anuria", (4, True)), supported("2", "In sulfonamide allergy.", (7, True))]
    [kept], [reject] = drop_duplicates(rows)
    assert kept.answer == "In patients with anuria. In sulfonamide allergy."
    assert (kept.gold_passages, kept.gold_codes, kept.gold_has_answer) == ([4, 7], ["34070-3"] * 2, [True, True])
    assert (reject.id, reject.reason, reject.detail) == ("2", "merged_answer", "1")


def test_the_more_complete_answer_is_kept() -> None:
    rows = [supported("1", "Anuria.", (4, True)), supported("2", "Anuria; known allergy.", (4, False), (5, True))]
    [kept], [reject] = drop_duplicates(rows)
    assert (kept.id, kept.answer, reject.reason) == ("1", "Anuria; known allergy.", "merged_answer")
    assert (kept.gold_passages, kept.gold_has_answer) == ([4, 5], [True, True])


def test_an_answer_in_nearly_the_same_words_is_not_joined() -> None:
    answers = (
        "It is contraindicated for the treatment of perioperative pain in bypass surgery.",
        "It is contraindicated for the treatment of peri-operative pain in bypass surgery.",
    )
    [kept], [reject] = drop_duplicates([supported(str(at), one, (at, True)) for at, one in enumerate(answers)])
    assert (kept.answer, kept.gold_passages, reject.reason) == (answers[0], [0, 1], "exact_duplicate")


def test_a_repeated_answer_adds_its_passage() -> None:
    [kept], [reject] = drop_duplicates([supported("1", "Anuria.", (4, True)), supported("2", "Anuria.", (9, True))])
    assert (kept.answer, kept.gold_passages, reject.reason) == ("Anuria.", [4, 9], "exact_duplicate")


@pytest.mark.parametrize(
    "answers",
    [
        ("The half-life is 6 hours.", "A half-life of 9 hours was found."),
        ("Long. " + "a b " * 150, "Also long: " + "c d " * 150),
    ],
)
def test_answers_that_may_contradict_or_are_too_long_drop_all(answers: tuple[str, str]) -> None:
    kept, rejects = drop_duplicates([supported(str(at), answer, (at, True)) for at, answer in enumerate(answers)])
    assert kept == []
    assert [(one.id, one.reason, one.detail) for one in rejects] == [("0", "ambiguous", "0"), ("1", "ambiguous", "0")]


def test_multi_hop_questions_keep_their_two_passages() -> None:
    one, other, third = (
        replace(supported(name, answer, (at, True), (at + 1, True)), type="multihop")
        for name, answer, at in (("1", "Anuria.", 2), ("2", "Anuria.", 5), ("3", "Known allergy.", 7))
    )
    [kept], [reject] = drop_duplicates([one, other])
    assert (kept, reject.reason) == (one, "exact_duplicate")
    assert drop_duplicates([one, third])[0] == []


def test_a_question_that_is_answered_and_refused_is_dropped() -> None:
    refused = replace(asked("2", "Is Velorin used in gout?", "Information not found!"), type="refusal")
    kept, rejects = drop_duplicates([asked("1", "Is Velorin used in gout?"), refused])
    assert (kept, [one.reason for one in rejects]) == ([], ["ambiguous", "ambiguous"])


words = st.sampled_from("what when dose Velorin adults renal maximum 20 40 mg with without of the".split())  # noqa: SIM905
questions = st.lists(words, min_size=1, max_size=6).map(lambda parts: " ".join(parts) + "?")
rows = st.lists(st.tuples(questions | st.text(max_size=30), st.sampled_from("ab")), max_size=25).map(
    lambda pairs: [asked(str(at), question, answer) for at, (question, answer) in enumerate(pairs)]
)


@given(rows)
def test_nothing_vanishes(given_rows: list[QuestionAnswer]) -> None:
    kept, rejects = drop_duplicates(given_rows)
    assert sorted([*(row.id for row in kept), *(reject.id for reject in rejects)]) == sorted(
        row.id for row in given_rows
    )
    assert {reject.detail for reject in rejects if reject.reason != "ambiguous"} <= {row.id for row in kept}
    told = {row.id: row.answer for row in given_rows}
    by_id = {row.id: row.answer for row in kept}
    assert all(told[one.id] in by_id[one.detail] for one in rejects if one.reason == "merged_answer")


@given(rows, st.randoms())
def test_in_any_order_each_reject_repeats_the_question_it_names(
    given_rows: list[QuestionAnswer], random: Random
) -> None:
    random.shuffle(given_rows)
    by_id = {row.id: row for row in given_rows}
    for reject in drop_duplicates(given_rows)[1]:
        [again] = drop_duplicates([by_id[reject.detail], by_id[reject.id]])[1]
        assert (again.id, again.detail) == (reject.id, reject.detail)
