"""Which passages count as a question's evidence."""

from __future__ import annotations

from fdarx_core.records import QuestionAnswer


def gold_of(question: QuestionAnswer) -> list[int]:
    """The gold passages in which the answer stands, in order; all of them where none is marked; none of a refusal.

    A question from the Highlights is shown with its whole section: what of it does not hold the answer is no evidence.
    """
    pairs = zip(question.gold_passages, question.gold_has_answer, strict=True)
    marked = [passage for passage, has_answer in pairs if has_answer]
    return marked or list(question.gold_passages)
