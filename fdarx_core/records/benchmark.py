"""Records of a build and a review: requests, responses, questions, verdicts, rejects, review items, annotations."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from fdarx_core.records.question_types import QUESTION_TYPES


@dataclass(slots=True)
class Request:
    """One request to one endpoint. `key` is a hash of all other fields that can change the response.

    `messages` have role and content as in the OpenAI API; `slots` are the inputs of the task from which they were
    rendered, and from which the baseline answers; `schema` is the JSON schema of the response.
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
    """The response to a request before it is parsed. `reason` is "" unless the request failed permanently.

    `prompt_tokens` includes the `cached_tokens` that the server read from its prompt cache, and the `written_tokens`
    that a vendor charges for writing to it. `attempts` counts the HTTP requests; `latency_s` is the time of the last
    one until the complete reply. `batched` says that it came by a vendor's batch API, which costs less.
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
    batched: bool = False


NO_ANSWER = "Information not found!"
"""The gold answer of refusal questions, as in the published benchmark."""


def content_id(*parts: str) -> str:
    """Return a hexadecimal id of 16 digits from the content, the same on every machine."""
    return blake2b("\x1f".join(parts).encode(), digest_size=8).hexdigest()


@dataclass(slots=True)
class QuestionAnswer:
    """One benchmark question with its gold answer and gold passages.

    `type` is the name of a `QuestionType`: factual, multihop, refusal, or that of a package; `answer_kind` refines it
    (dose, action, condition, reason, yes_no, list, numeric and factual for one section; multihop; refusal);
    `source` is what it was made from (section, section_pair, twin, or transfer: a question that another label answers);
    `difficulty` is direct, several or table for one section, bridge, comparison or computation for two; `category` is
    one of the nine label topics of FDARxBench §B.4. `gold_passages` are doc_chunk_index values; for each, `gold_codes`
    has the LOINC code of its section, and `gold_has_answer` is whether it contains the answer. `evidence` is what the
    writer quoted from them. `entity` is what a refusal question asks about and the label does not mention, and `twin`
    is the id of the answerable question that it was written with, or whose words it has. Where the label does mention
    it, and is silent on what is asked of it, that is `attribute` (a near miss). `template` is the wording of a template
    question, before names are put in. `task`, `task_version`, `endpoint` and `response_key` identify the
    response that it comes from. `judge` is the endpoint that judged it, or several with ", " between; `verdict_keys`
    are the responses of all votes, `relevance` is the verdict of the first judge. `unscored` are the stages of judging
    at which there is no usable verdict on it; `known_without_label` says that a model gave the answer from nothing.
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
    attribute: str = ""
    twin: str = ""
    difficulty: str = ""
    evidence: list[str] = field(default_factory=list)
    task: str = ""
    task_version: int = 0
    endpoint: str = ""
    response_key: str = ""
    relevance: str = ""
    judge: str = ""
    verdict_keys: list[str] = field(default_factory=list)
    unscored: list[str] = field(default_factory=list)
    known_without_label: bool = False

    @property
    def answerable(self) -> bool:
        """Whether its label has the answer. Raises KeyError for a type that no installed package has."""
        return QUESTION_TYPES[self.type].answerable


@dataclass(slots=True)
class Reject:
    """A rejected row. Every row that is dropped becomes a Reject.

    `id` is that of the row (a file, a set id, a context or a question); `stage` is the stage that rejected it; `reason`
    is a fixed name to count by; `detail` explains this case.
    """

    id: str
    stage: str
    reason: str
    detail: str = ""
    set_id: str = ""
    source: str = ""


@dataclass(slots=True)
class StageCount:
    """The counts of one stage: rows in = kept + rejected; `rows_out` rows were made from the kept ones."""

    stage: str
    rows_in: int = 0
    kept: int = 0
    rejected: int = 0
    rows_out: int = 0


@dataclass(slots=True)
class JudgeVerdict:
    """The verdict of a judge on a question. Source: FDARxBench §B.4, stage 2.

    `stage` is relevance, support or quality; `outcome` is kept, dropped or unscored. An unscored verdict does not judge
    the question: its `reason` says why there is no verdict. The reason of a dropped question is a fixed name to count
    by, that of a kept one is "". `evidence` has the quotations of the judge, in the stage round_trip the answers of the
    reader, each after what it was shown. Only the relevance judge sets `category`
    and `relevance`. `task`, `task_version`, `endpoint` and `response_key` identify the response. `vote` is the number
    of the vote among those on the same question at the same stage, from 1.
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
    vote: int = 1


@dataclass(slots=True)
class ReviewItem:
    """One item for people to judge, with the text that they need, and the decision of the judge.

    `task` is relevance, category, correctness, quality, grade, claim, flag or answer; `choices` are its values and
    unsure. `subject` is the id of the question, prediction, claim, flag or answer; `model` and `setting` are those of
    its answer, "" for a question. `statement` is the claim, or the words with a flag. `set_id` is the cluster of
    answers where no label is known. `decision` is the value of the judge, "" for none, and `because` its reason; `kept`
    is whether the question is in the benchmark. `evidence` are the passages that the judge saw, unchanged (for a grade:
    the gold passages); `gold` is the reference answer of a prediction. `stratum` is the stratum of the sample,
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
    statement: str = ""


@dataclass(slots=True)
class Annotation:
    """The value that one person gave to one item; `seconds` is the time from seeing the item to the value.

    `saw_decision`: the decision of the judge was visible before the value was given. `adjudicated`: the person saw the
    marks of all annotators, and this value is used instead of theirs.
    """

    item_id: str
    annotator: str
    task: str
    value: str
    remark: str = ""
    saw_decision: bool = False
    seconds: float = 0.0
    adjudicated: bool = False
