"""How good the contexts of an answer are, and the answer itself, each in 0 to 1.

Context precision and recall are as Ragas defines them from a judge's verdicts. The paper's figures come from a Ragas of
late 2023 (0.0.x), which is the same for precision; for recall it divided by the lines of the judge's reply, empty ones
included, so that its recalls are too low and can't be set against these. Source: QA-RAG §3.1; Es et al. 2023; Ragas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fdarx_core.evaluation.metrics.citations import f1, share
from fdarx_core.filters.text import tokens

_SMALL = 1e-10
"""Ragas adds it to the number of useful contexts, so that none gives 0; published values have it in their digits."""


def context_precision(useful: Sequence[bool]) -> float:
    """The mean, over the useful contexts, of the share of useful ones down to each; contexts are in their order.

    It rewards useful contexts that stand first; 0 where none is useful, and where there are no contexts.
    """
    found, total = 0, 0.0
    for rank, one in enumerate(useful, 1):
        found += one
        total += found / rank if one else 0.0
    return total / (found + _SMALL)


def context_recall(attributed: Sequence[bool]) -> float | None:
    """The share of the reference's statements that the contexts hold; None where it states nothing."""
    return sum(attributed) / len(attributed) if attributed else None


def token_f1(answer: str, references: Sequence[str]) -> float | None:
    """F1 of the words that answer and reference share, each as often as it stands in both; the best reference counts.

    Words are in lower case and without a plural's s. None without a reference. Source: Rajpurkar et al. 2016, §6.1.
    """
    return max((_shared(tokens(answer), tokens(reference)) for reference in references), default=None)


def _shared(said: Sequence[str], wanted: Sequence[str]) -> float:
    both = (Counter(said) & Counter(wanted)).total()
    return f1(share(both, len(said)), share(both, len(wanted)))


def document_recall(k: int, title_rank: int | None) -> float | None:
    """1 where one of the first k candidates is of the right document, else 0. `title_rank` is as in RagScore."""
    return None if title_rank is None else float(0 < title_rank <= k)


def reciprocal_rank(title_rank: int | None) -> float | None:
    """1 ÷ the rank of the first candidate of the right document, 0 where there is none; its mean is the MRR."""
    return None if title_rank is None else share(1, title_rank)
