"""The places of gold passages that are marked because the answer, or the judge, has them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.report.samples import MarkedText, mark_passages

DOSE = "Take one tablet daily with food.\nDo not take more than\n 550 mg a day. Stop if a rash occurs."


def marked(answer: str, *passages: str, quotations: tuple[str, ...] = ()) -> list[list[tuple[str, str]]]:
    texts = [MarkedText(passage) for passage in passages]
    return [
        [piece for piece in text.pieces(marks) if piece[1]]
        for text, marks in zip(texts, mark_passages(answer, quotations, texts), strict=True)
    ]


def test_a_sentence_is_found_whatever_its_white_space_case_and_stop() -> None:
    assert marked("do not take more than 550 mg a day", DOSE) == [
        [("Do not take more than\n 550 mg a day", "sentence")]
    ]


def test_each_sentence_is_marked_in_the_passage_that_has_it() -> None:
    answer = "Take one tablet daily with food. Bleeding may occur at any time."
    assert marked(answer, DOSE, "Bleeding may occur at any time.") == [
        [("Take one tablet daily with food", "sentence")],
        [("Bleeding may occur at any time", "sentence")],
    ]


def test_parts_of_words_and_numbers_are_not_the_answer() -> None:
    assert marked("50 mg", "Take 550 mg or 50 mga.") == [[]]
    assert marked("at most 1", "Take at most 1.5 g.") == [[]]
    assert marked("50 mg", "Take 50 mg, then 50 mg.") == [[("50 mg", "sentence"), ("50 mg", "sentence")]]


def test_words_are_marked_where_the_sentence_is_nowhere_whole() -> None:
    assert marked("Patients do not take more than 550 mg a week.", DOSE) == [
        [("Do not take more than\n 550 mg a", "words")]
    ]


def test_quotations_are_marked_apart_from_the_answer() -> None:
    quotation = "Take one tablet daily with food. Do not take more than 550 mg a day."
    assert marked("Take one tablet daily with food.", DOSE, quotations=(quotation,)) == [
        [("Take one tablet daily with food", "sentence"), (".\nDo not take more than\n 550 mg a day", "quoted")]
    ]


@given(st.text(alphabet="ab c.\n1İ😀", max_size=60), st.text(alphabet="ab c.\n1İ😀", max_size=20), st.integers(0, 40))
def test_pieces_are_the_whole_text(text: str, answer: str, at: int) -> None:
    passage = MarkedText(text)
    (marks,) = mark_passages(answer, [text[at : at + 9]], [passage])
    assert "".join(piece for piece, _ in passage.pieces(marks)) == text
