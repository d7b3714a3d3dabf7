"""Records of an evaluation: rankings, predictions, grades, scores and the progress of cells."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class LabelSummary:
    """A label of an evaluation. `whole`: all its passages are available, not only the gold passages.

    `passages` and `characters` count the available passages. `drug` is as in `Label`; of a published label, which does
    not have it, it is the name of the drug in lower case. It is "" if neither is known.
    """

    set_id: str
    drug_name: str
    whole: bool
    passages: int
    characters: int
    drug: str = ""


@dataclass(slots=True)
class Ranking:
    """The best passages of a retriever for a question, best first, and their scores.

    `ranked` are doc_chunk_index values; `ranked_set_ids` are their labels, empty if all are of the label of the
    question (retrieval within a label).
    """

    question_id: str
    set_id: str
    retriever: str
    ranked: list[int] = field(default_factory=list)
    ranked_set_ids: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Equivalence:
    """The passages of a label that state the same as the gold passages of a question.

    Passage `members[i]` may replace gold passage `gold[i]`; a gold passage is not listed for itself. `why[i]` is
    near_duplicate or same_statement. Source: FDARxBench §6, second limitation.
    """

    question_id: str
    set_id: str
    gold: list[int] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    why: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Prediction:
    """The reply of a model to a question in a setting, and its parsed answer.

    `setting` is closed_book, full_label, oracle or retrieved, the last with a `retriever`; answers of other programs
    keep the names of the user. `outcome` is answered; refused; unparsed (`reason` says why no answer can be parsed from
    `text`); or failed (`reason` says why there is no reply). `answer` is the reply without its citations. `cited` are
    doc_chunk_index values in the order of the citations, `shown` those of the passages in the prompt; their `…_set_ids`
    are as in `Ranking`. `cited_unknown` counts citations of passages that were not shown; `cuts` counts the passages of
    the label that were left out or cut. `cost` is in USD.
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
    """The grade of a prediction.

    `outcome` is correct, incorrect, not_attempted; of an answer that is judged by its context supported, contradicted,
    unsupported; or unscored, which is no verdict. `reason` is a fixed name to count by, also for a missing verdict,
    `detail` an explanation for readers. `judge` is the endpoint, or `rule` if no judge was needed (a refusal is not
    attempted; refusal questions). Source: FDARxBench §B.8.
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
    """The numbers of one prediction, from which all metrics and subgroups are computed; None has no meaning there.

    `cluster` is the drug of the label, or its set id: the bootstrap draws clusters. `type` to `label_characters`
    describe the question: `section` is the nearest coded section of its first gold
    passage, `numeric` is whether its answer has a number. `grade` is the outcome of its Grade, "" without one. `gold`,
    `cited` and `hits` count passages; with equivalent passages, `eq_hits` counts the gold passages that are cited,
    themselves or by an equivalent passage, and `eq_right` the cited passages that are gold or equivalent. Overlaps are
    in 0 to 1. `cuts` is as in `Prediction`; `gold_shown` counts the gold passages in the prompt, None for a prompt
    without passages. `extra` has the numbers of metrics of other packages, by the name of the metric.
    """

    prediction_id: str
    question_id: str
    set_id: str
    cluster: str
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
    cuts: int = 0
    gold_shown: int | None = None
    extra: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class RetrievalScore:
    """The numbers of one ranking, strict and (`eq_`) with equivalent passages; `gold` counts gold passages.

    The fields from `type` to `label_characters` are as in `Score`.
    """

    question_id: str
    set_id: str
    cluster: str
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
    """The progress of a cell: `status` is done, partial, incomplete or skipped.

    A cell is partial if answers that were made elsewhere are missing. `reason` says why a cell is not done, or why
    replies of a done cell `failed`. The counts are of questions: those due, and of these answered, refused, unparsed
    and failed; `unscored` have no verdict. Tokens are those of the server, `cost` is in USD (None without prices),
    latencies are in seconds. `engine` is what answered: the kind of API, the model's id and its sampling parameters, or
    the version of the built-in rules. `judge` is the name of the judge, `judge_engine` what graded; the prompts are
    tasks with their versions, "" where none was used. `cut` counts the questions whose evidence was shortened to fit
    the context; `gold_due` those with gold passages whose prompt has passages, and `gold_shown` those of them whose
    prompt has all gold passages.
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
    engine: str = ""
    answer_prompt: str = ""
    judge: str = ""
    judge_engine: str = ""
    judge_prompt: str = ""
    cut: int = 0
    gold_due: int = 0
    gold_shown: int = 0

    @property
    def unusable(self) -> int:
        """The number of questions without a reply, or with one that could not be parsed."""
        return self.unparsed + self.failed

    @property
    def covered(self) -> int:
        """The number of questions with a reply, whether it could be parsed or not."""
        return self.answered + self.refused + self.unparsed

    @property
    def coverage(self) -> float:
        """The share of the questions due that have a reply; 0 if none is due."""
        return self.covered / self.due if self.due else 0.0
