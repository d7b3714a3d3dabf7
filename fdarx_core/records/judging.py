"""What a judge found of a question."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Verdict:
    """One judge's finding on one question, with what it rests on. Source: FDARxBench §B.4, stage 2.

    `stage` is relevance, support or quality; `outcome` kept, dropped or unscored. An unscored one is no verdict on the
    question: its `reason` says why none was reached. The reason of a dropped one is a fixed name to count by, that of a
    kept one "". `evidence` is what the judge quoted, in the judge's words. `category` and `relevance` are set by
    the relevance judge alone. `task`, `task_version`, `endpoint` and `response_key` lead to the response.
    """

    question_id: str
    set_id: str
    stage: str
    outcome: str
    reason: str = ""
    detail: str = ""
    evidence: list[str] = field(default_factory=list)
    category: str = ""
    relevance: str = ""
    task: str = ""
    task_version: int = 0
    endpoint: str = ""
    response_key: str = ""
