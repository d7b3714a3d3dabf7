"""How the candidates are narrowed down to the contexts. Source: QA-RAG §2.4."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fdarx_core.llm import Unparsable
from fdarx_core.rag.tasks import SCORE_CHUNK
from fdarx_core.rag.tools import Ask
from fdarx_core.records import Chunk, Found, Response

POSTPROCESSORS: dict[str, str] = {"rerank": "Reranker", "score": "Scoring agent", "none": "None"}
"""By name, as the tables call them: a cross-encoder's scores, a model's from 1 to 10, or the order of the pool."""


def order(found: Sequence[Found], scores: Sequence[float | None], keep: int) -> list[Found]:
    """The `keep` best by score, ties in the order of `found`; each carries its score in `rerank`.

    What has none (None, or not a number) comes after all that have one. Raises ValueError where they differ in number.
    """
    scored = [replace(one, rerank=_valid(score)) for one, score in zip(found, scores, strict=True)]
    return sorted(scored, key=lambda one: (one.rerank is None, -(one.rerank or 0.0)))[:keep]


def score_asks(question: str, candidates: Sequence[Found]) -> list[Ask]:
    """What the scoring agent is asked: once for each candidate."""
    return [(SCORE_CHUNK, {"question": question, **_shown(one.chunk)}) for one in candidates]


def read_score(response: Response, missing: list[str]) -> float | None:
    """The score from 1 to 10 in a reply of SCORE_CHUNK. Where there is none, a line in `missing` says why."""
    try:
        return float(SCORE_CHUNK.parse(response).score)
    except Unparsable as error:
        missing.append(f"{SCORE_CHUNK.name}: {error.reason}: {error.detail}")
        return None


def _shown(chunk: Chunk) -> dict[str, str]:
    return {"title": chunk.title, "section": chunk.section, "text": chunk.text}


def _valid(score: float | None) -> float | None:
    return None if score is None or math.isnan(score) else float(score)
