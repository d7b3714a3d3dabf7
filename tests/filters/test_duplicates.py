from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.filters import drop_duplicates
from fdarx_core.records import QuestionAnswer


def asked(name: str, question: str, answer: str = "40 mg once daily", entity: str = "") -> QuestionAnswer:
    kind = "refusal" if entity else "factual"
    return QuestionAnswer(name, kind, kind, "section", "", "set-1", "Velorin", question, answer, entity=entity)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("What is the dose of Velorin?", "a"), ("What is the dose of Velorin?", "a"), "exact_duplicate"),
        (("What is the dose of Velorin?", "a"), ("what is the  dose of VELORIN® ?", "b"), "exact_duplicate"),
        (("What is the dose of Velorin?", "a"), ("What are the doses of Velorin?", "b"), "near_duplicate"),
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


words = st.sampled_from("what when dose Velorin adults renal maximum 20 40 mg with without of the".split())  # noqa: SIM905
questions = st.lists(words, min_size=1, max_size=6).map(lambda parts: " ".join(parts) + "?")
rows = st.lists(st.tuples(questions | st.text(max_size=30), st.sampled_from("ab")), max_size=25).map(
    lambda pairs: [asked(str(at), question, answer) for at, (question, answer) in enumerate(pairs)]
)


@given(rows)
def test_nothing_vanishes_and_running_twice_drops_nothing_more(given_rows: list[QuestionAnswer]) -> None:
    kept, rejects = drop_duplicates(given_rows)
    dropped = {reject.id for reject in rejects}
    assert kept == [row for row in given_rows if row.id not in dropped]
    assert len(kept) + len(rejects) == len(given_rows)
    assert {reject.detail for reject in rejects} <= {row.id for row in kept}
    assert drop_duplicates(kept) == (kept, [])


@given(rows, st.randoms())
def test_in_any_order_each_reject_repeats_the_question_it_names(
    given_rows: list[QuestionAnswer], random: Random
) -> None:
    random.shuffle(given_rows)
    by_id = {row.id: row for row in given_rows}
    for reject in drop_duplicates(given_rows)[1]:
        [again] = drop_duplicates([by_id[reject.detail], by_id[reject.id]])[1]
        assert again == reject


@given(rows, rows)
def test_copies_are_dropped_wherever_they_stand(given_rows: list[QuestionAnswer], more: list[QuestionAnswer]) -> None:
    kept, _ = drop_duplicates(given_rows)
    assert drop_duplicates([*kept, *more, *kept])[0] == drop_duplicates([*kept, *more])[0]
