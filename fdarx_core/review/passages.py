"""What annotators read of an item: its texts, and its passages with the sentences that are most like the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from fdarx_core.baseline.stems import best_sentences, terms
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.tasks import GRADE_TASK, ReviewTask

EMPTY = "(empty)"
"""What annotation tools show for a text without characters, which some of them refuse."""

Piece = tuple[str, str]
"""A kind (plain, evidence or near) and characters of the context."""


def pieces_of(item: ReviewItem) -> list[Piece]:
    """Return the whole context in order.

    Pieces of kind evidence are the text that the judge was shown. Pieces of kind near are its sentences with most of
    the words and numbers of the answer (of the reference where an answer is graded, of the question where no answer is
    expected, of the claim where one is judged). Rules find them, for rejected questions too, because the quotation of
    the judge would show its decision.
    """
    sought = item.statement or (item.question if item.type == "refusal" else item.gold or item.answer)
    near, pieces, at = best_sentences(terms(sought), "\n".join(item.evidence)), list[Piece](), 0
    for passage in item.evidence:
        start = item.context.find(passage, at)
        if start >= 0:
            pieces += [("plain", item.context[at:start]), *_marked(passage, near)]
            at = start + len(passage)
    pieces.append(("plain", item.context[at:]))
    return [(kind, text) for kind, text in pieces if text]


def _marked(passage: str, near: Sequence[str]) -> Iterator[Piece]:
    at = 0
    for start, sentence in sorted((passage.find(sentence), sentence) for sentence in near):
        if start >= at:
            yield "evidence", passage[at:start]
            yield "near", sentence
            at = start + len(sentence)
    yield "evidence", passage[at:]


def text_titles(task: ReviewTask) -> dict[str, str]:
    """Return the fields of an item that annotators read beside its passages, with their titles, in order."""
    titles = {"question": "Question", "gold": "Reference" if task.name == GRADE_TASK else ""}
    titles |= {"answer": "Answer" if task.shows_answer else "", "statement": task.statement}
    return {name: title for name, title in titles.items() if title}


def passages_html(item: ReviewItem) -> str:
    """Return the whole context as HTML for annotation tools, with the pieces of kind near in `<mark>`.

    It is one line, because a blank line would end the block of HTML for a reader of Markdown.
    """
    made = [f"<mark>{_html(text)}</mark>" if kind == "near" else _html(text) for kind, text in pieces_of(item)]
    return f"<div>{''.join(made) or 'There is no text for this item.'}</div>"


def _html(text: str) -> str:
    return "<br>".join(escape(line) for line in text.splitlines()) + ("<br>" if text.endswith("\n") else "")
