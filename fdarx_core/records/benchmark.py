"""The records of a benchmark build: requests and responses, questions, verdicts, rejects, and items that people
review."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any


@dataclass(slots=True)
class Request:
    """One question to one endpoint, complete: `key` is a hash of every other field that can change the answer.

    `messages` are role and content as OpenAI-compatible servers take them; `slots` are the task's inputs from which
    they were rendered (the baseline answers from these); `schema` is the response's JSON schema.
    """

    key: str
    task: str
    task_version: int
    endpoint: str
    slots: dict[str, Any]
    messages: list[dict[str, str]]
    schema: dict[str, Any]
    sampling: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Response:
    """What came back for a request, before anything parses it. `reason` is "" unless asking failed for good.

    `prompt_tokens` includes the `cached_tokens` that the server read from its prompt cache, and the `written_tokens`
    that a vendor charges for writing to it. `attempts` counts the HTTP requests that it took; `latency_s` is that of
    the last, from sending to the whole reply.
    """

    key: str
    task: str
    task_version: int
    endpoint: str
    text: str
    reason: str = ""
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    cached_tokens: int = 0
    attempts: int = 1
    written_tokens: int = 0


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


@dataclass(slots=True)
class ReviewItem:
    """One thing for people to judge, with all that they need to see, and the judge's own decision.

    `task` is relevance, category, correctness, quality or grade; `choices` are the values that may be given. `subject`
    is the id of the question or prediction, `model` and `setting` those of a prediction, "" for a question. `decision`
    is the judge's value in the same words, "" where it reached none, `because` its reason; `kept` is whether the
    question stands in the benchmark. `evidence` are the passages, letter for letter, that the judge saw (of a grade:
    the gold ones); `gold` is the reference answer of a prediction. `stratum` is what the sample was drawn within,
    `fraction` the share of it that was drawn (0 to 1). Source: FDARxBench §B.4, "Sampling for human review".
    """

    id: str
    task: str
    subject: str
    set_id: str
    drug: str
    type: str
    category: str
    question: str
    answer: str
    choices: list[str]
    decision: str
    because: str = ""
    kept: bool = True
    evidence: list[str] = field(default_factory=list)
    context: str = ""
    gold: str = ""
    model: str = ""
    setting: str = ""
    judge: str = ""
    stratum: str = ""
    fraction: float = 1.0


@dataclass(slots=True)
class Annotation:
    """What one person said of one item. `value` is one of its choices; `seconds` from seeing it to the answer.

    `saw_decision`: the judge's decision was shown before the value was given.
    """

    item_id: str
    annotator: str
    task: str
    value: str
    remark: str = ""
    saw_decision: bool = False
    seconds: float = 0.0
