"""What people are asked about a run's questions and answers, and what they say."""

from __future__ import annotations

from dataclasses import dataclass, field


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
