"""The benchmark's rows, and what becomes of rows that don't reach it."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

NO_ANSWER = "Information not found!"
"""The gold answer of refusal questions, as the published benchmark writes it."""


def content_id(*parts: str) -> str:
    """A stable 16-digit hexadecimal id from content: equal parts, equal id, on any machine."""
    return blake2b("\x1f".join(parts).encode(), digest_size=8).hexdigest()


@dataclass(slots=True)
class QuestionAnswer:
    """One benchmark question with its gold answer and where that stands.

    `type` is factual, multihop or refusal; `answer_kind` refines it (factual, list, numeric, multihop, refusal);
    `source` says what it was made from (highlights, section, section_pair, refusal_template); `category` is one of
    the nine label topics of FDARxBench §B.4. `gold_passages` are doc_chunk_index values, with the LOINC codes of
    their sections in `gold_codes` and, position by position, whether the answer stands there in `gold_has_answer`.
    `entity` is the absent thing that a refusal question asks about. `task`, `task_version`, `endpoint` and
    `response_key` lead to the response it came from; `response_key` is "" where no model was asked. `judge` is the
    endpoint that judged it, `verdict_keys` the responses by which it did, `relevance` what the first of them says.
    """

    id: str
    type: str
    answer_kind: str
    source: str
    category: str
    set_id: str
    drug_name: str
    question: str
    answer: str
    gold_passages: list[int] = field(default_factory=list)
    gold_codes: list[str] = field(default_factory=list)
    gold_has_answer: list[bool] = field(default_factory=list)
    template: str = ""
    entity: str = ""
    task: str = ""
    task_version: int = 0
    endpoint: str = ""
    response_key: str = ""
    relevance: str = ""
    judge: str = ""
    verdict_keys: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Reject:
    """A row that left the flow, and why. Nothing leaves otherwise.

    `id` is the row's own (a file, a set id, a context or a question); `stage` where it left; `reason` a fixed name to
    count by; `detail` what a reader needs to understand this one.
    """

    id: str
    stage: str
    reason: str
    detail: str = ""
    set_id: str = ""
    source: str = ""


@dataclass(slots=True)
class StageCount:
    """The accounting of one stage: every row in either went on or was rejected; those that went on made `rows_out`."""

    stage: str
    rows_in: int = 0
    kept: int = 0
    rejected: int = 0
    rows_out: int = 0
