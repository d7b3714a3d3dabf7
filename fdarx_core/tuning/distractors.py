"""Passages that resemble the gold passages of a question and do not answer it.

They are the hard negatives of a retriever, and stand among the contexts of a cited answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from fdarx_core.baseline.tokens import content_words, word_overlap
from fdarx_core.records import Passage, QuestionAnswer
from fdarx_core.retrieval.retrievers import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.storage.run_directory import LabelRows

MAX_OVERLAP = 0.5
"""The share of the answer's content words from which a passage might answer the question."""
MAX_SIMILARITY = 0.8
"""The Jaccard similarity of content words from which a passage is a near copy of a gold passage."""
SIBLINGS = 2
"""Other labels of the drug whose passages are searched as well."""
_DEPTH = 50
"""Passages of the ranking of BM25 that are looked at."""


def distractors(
    rows: LabelRows, questions: Sequence[QuestionAnswer], siblings: Sequence[LabelRows], most: int
) -> list[list[Passage]]:
    """Return for each question the first passages of BM25 that do not answer it, at most `most`.

    Left out are the gold passages, near copies of them, passages that have the words of the answer, and passages of a
    sibling with a text that the label has too.

    Args:
        rows: the label of the questions.
        questions: questions of this label.
        siblings: other labels of the same drug.
        most: how many passages to return.
    """
    own = list(rows.passages.values())
    texts = {_normalized(one) for one in own}
    others = [one for label in siblings for one in label.passages.values() if _normalized(one) not in texts]
    passages = [*own, *others]
    asked = Queries([one.question for one in questions])
    rankings = get_retriever("bm25").rank(asked, Collection([*map(passage_search_text, passages)]), _DEPTH)
    return [
        _misleading(question, rows.gold(question), [passages[at] for at, _ in ranked])[:most]
        for question, ranked in zip(questions, rankings, strict=True)
    ]


def _normalized(passage: Passage) -> str:
    return " ".join(passage.text.split())


def _misleading(question: QuestionAnswer, gold: Sequence[Passage], ranked: Sequence[Passage]) -> list[Passage]:
    """Return those of the ranked passages that neither are gold nor may answer the question, each text once."""
    found: dict[str, Passage] = {}
    for one in ranked:
        answers = question.type != "refusal" and word_overlap(question.answer, one.text) >= MAX_OVERLAP
        if not answers and all(_similarity(one.text, other.text) < MAX_SIMILARITY for other in gold):
            found.setdefault(_normalized(one), one)
    return list(found.values())


def _similarity(text: str, other: str) -> float:
    words, others = content_words(text), content_words(other)
    return len(words & others) / max(1, len(words | others))
