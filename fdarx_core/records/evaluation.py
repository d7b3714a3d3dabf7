"""What an evaluation makes: what was found, said and graded for each question, and the figures that follow."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class LabelSummary:
    """A label as an evaluation knows it. `whole`: all its passages are at hand, not only those that questions rest on.

    `passages` and `characters` count what is at hand.
    """

    set_id: str
    drug_name: str
    whole: bool
    passages: int
    characters: int


@dataclass(slots=True)
class Ranking:
    """The passages that a retriever puts first for a question, best first, with its scores position by position.

    `ranked` are doc_chunk_index values. `ranked_set_ids` are their labels, and empty where all are of the question's
    own label (retrieval within a label).
    """

    question_id: str
    set_id: str
    retriever: str
    ranked: list[int] = field(default_factory=list)
    ranked_set_ids: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Equivalence:
    """Which passages of a label state the same as a question's gold passages.

    Position by position: passage `members[i]` may stand for gold passage `gold[i]`; each gold passage stands for itself
    and is not listed. `why[i]` is near_duplicate or same_statement. Source: FDARxBench §6, second limitation.
    """

    question_id: str
    set_id: str
    gold: list[int] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    why: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Prediction:
    """What one model said to one question in one setting, and how it was understood.

    `setting` is closed_book, full_label, oracle or retrieved, then by `retriever`; both are as the user named them in
    answers made elsewhere. `outcome`: answered; refused; unparsed (`reason` says why no answer can be read off `text`);
    failed (`reason` says why there is no reply). `answer` is the reply without its citations. `cited` are
    doc_chunk_index values in the order of their naming, `shown` those of the passages that stood in the prompt;
    their `…_set_ids` are as in `Ranking`. `cited_unknown` counts citations of passages that were not shown;
    `cuts` counts the label's passages that were left out or cut because the label was too long. `cost` is in USD.
    """

    id: str
    question_id: str
    set_id: str
    model: str
    setting: str
    retriever: str = ""
    outcome: str = "answered"
    answer: str = ""
    text: str = ""
    reason: str = ""
    cited: list[int] = field(default_factory=list)
    cited_set_ids: list[str] = field(default_factory=list)
    cited_unknown: int = 0
    shown: list[int] = field(default_factory=list)
    shown_set_ids: list[str] = field(default_factory=list)
    cuts: int = 0
    task: str = ""
    task_version: int = 0
    response_key: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    cost: float | None = None


@dataclass(slots=True)
class Grade:
    """What a judge found of a prediction.

    `outcome` is correct, incorrect, not_attempted or unscored; an unscored one is no verdict on the answer, and its
    `reason` says why none was reached. `reason` is a fixed name to count by, `detail` what a reader needs to see.
    `judge` is the endpoint; `rule` where no judge was needed (a refusal is not attempted; refusal questions).
    Source: FDARxBench §B.8.
    """

    prediction_id: str
    question_id: str
    set_id: str
    outcome: str
    reason: str = ""
    detail: str = ""
    judge: str = ""
    task: str = ""
    task_version: int = 0
    response_key: str = ""


@dataclass(slots=True)
class Score:
    """One prediction in numbers: all that metrics and subgroups rest on. None: the number has no meaning there.

    `type` to `label_characters` describe the question (`section` names the nearest coded section of its first gold
    passage, `numeric` is whether its answer holds a number). `grade` is the outcome of its Grade, "" where it has none.
    `gold`, `cited` and `hits` count passages; under equivalence `eq_hits` counts the gold passages that are cited or
    stood for, `eq_right` the cited passages that are gold or stand for one. Overlaps are in 0 to 1.
    `extra` holds the numbers of metrics that other packages add, by the metric's name.
    """

    prediction_id: str
    question_id: str
    set_id: str
    model: str
    setting: str
    retriever: str
    type: str
    answer_kind: str
    category: str
    section: str
    numeric: bool
    label_characters: int
    outcome: str
    grade: str
    gold: int = 0
    cited: int | None = None
    hits: int | None = None
    eq_hits: int | None = None
    eq_right: int | None = None
    bleu: float | None = None
    meteor: float | None = None
    rouge_l: float | None = None
    bert_score: float | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    cost: float | None = None
    extra: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class RetrievalScore:
    """One ranking in numbers, strict and (`eq_`) under equivalence; `gold` is the number of gold passages.

    The fields from `type` to `label_characters` are as in `Score`.
    """

    question_id: str
    set_id: str
    retriever: str
    type: str
    answer_kind: str
    category: str
    section: str
    numeric: bool
    label_characters: int
    gold: int
    recall_1: float = 0.0
    recall_5: float = 0.0
    recall_10: float = 0.0
    recall_gold: float = 0.0
    f1_gold: float = 0.0
    mrr: float = 0.0
    ndcg_10: float = 0.0
    eq_recall_1: float = 0.0
    eq_recall_5: float = 0.0
    eq_recall_10: float = 0.0
    eq_recall_gold: float = 0.0
    eq_f1_gold: float = 0.0
    eq_mrr: float = 0.0
    eq_ndcg_10: float = 0.0


@dataclass(slots=True)
class SettingProgress:
    """One row of the sweep, and how far it came: `status` is done, incomplete, or skipped.

    `reason` says why it is not done, and of one that is done why replies `failed`, where some did.

    Counts are of questions: those due in this cell, and of these answered, refused, unparsed, failed; `unscored` those
    without a verdict. Tokens are as the server counted, `cost` in USD (None without prices), latencies in seconds.
    """

    model: str
    setting: str
    retriever: str
    status: str
    reason: str = ""
    due: int = 0
    answered: int = 0
    refused: int = 0
    unparsed: int = 0
    failed: int = 0
    unscored: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    latency_p50: float | None = None
    latency_p95: float | None = None
