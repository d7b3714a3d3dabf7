"""Why an answer is wrong, in words: what the judge found, whether the gold passages were shown, what was cited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fdarx_core.evaluation.tables import BASELINE
from fdarx_core.records import QuestionAnswer
from fdarx_core.report.evaluation.evidence import tell_citations, weigh_evidence
from fdarx_core.report.evaluation.sources import Sources
from fdarx_core.report.evaluation.wording import FAULT_MEANINGS
from fdarx_core.report.evaluation.wrong import WrongAnswer
from fdarx_core.report.retention import readable


@dataclass(frozen=True, slots=True)
class Explanation:
    """`finding` says what is wrong, `detail` what the judge said, or why there is no answer.

    `evidence` is a name in `EVIDENCE`; `notes` are whole sentences on what was shown and what was cited.
    """

    finding: str
    detail: str
    evidence: str
    notes: list[str]


def explain(wrong: WrongAnswer, sources: Sources) -> Explanation:
    """For a reviewer who has the question, both answers and the passages before them."""
    question = sources.questions[wrong.prediction.question_id]
    evidence, shown = weigh_evidence(wrong, question, sources)
    notes = [shown, tell_citations(wrong.prediction, question, sources)]
    return Explanation(
        _FINDINGS[wrong.kind](wrong, question), _detail(wrong), evidence, [note for note in notes if note]
    )


_LEADS = {
    "number_missing": "Missing: ",
    "population_missing": "Missing: ",
    "warning_missing": "Missing: ",
    "key_content_missing": "Missing: ",
    "abstained": "Missing: ",
    "vague": "Missing: ",
    "unsupported_number": "Not in the gold answer: ",
    "unsupported_population": "Not in the gold answer: ",
    "unsupported_warning": "Not in the gold answer: ",
    "polarity": "The other way round: ",
}
"""What the details of the baseline grader are, by its reason."""


def _detail(wrong: WrongAnswer) -> str:
    if wrong.kind in ("hallucinated", "false_refusal"):
        return ""
    said = wrong.grade.detail if wrong.grade else ""
    if wrong.grade and said and wrong.grade.judge == BASELINE:
        return f"{_LEADS.get(wrong.grade.reason, '')}{said}"
    return f"“{said}”" if said else readable(wrong.prediction.reason)


def reason_of(wrong: WrongAnswer) -> str:
    """The fixed name to filter by: the judge's, or why there is no reply or none that can be read; "" without one."""
    if wrong.kind in ("failed", "unparsed"):
        return wrong.prediction.reason
    return "" if wrong.grade is None or wrong.grade.reason == "unnamed" else wrong.grade.reason


def _judged(wrong: WrongAnswer, found: str) -> str:
    if wrong.grade is None:
        return f"Not graded; counted as {found}."
    reason = reason_of(wrong)
    meaning = f": {FAULT_MEANINGS.get(reason, readable(reason))}" if reason else ""
    return f"{_judge(wrong.grade.judge)} found it {found}{meaning}."


def _judge(name: str) -> str:
    named = {BASELINE: "The baseline grader, which goes by rules,", "rule": "A fixed rule", "": "The judge"}
    return named.get(name, f"The judge {name}")


def _incorrect(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    return _judged(wrong, "incorrect")


def _not_attempted(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    return _judged(wrong, "not to attempt an answer")


def _false_refusal(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    if wrong.prediction.setting == "closed_book":
        return "The model declined to answer from memory."
    return "The model said that there is no answer, but the label holds one."


def _hallucinated(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    about = f" It asks about “{question.entity}”, which the label does not mention." if question.entity else ""
    return f"The label has no answer to this question, so the right reply is to say so; the model answered.{about}"


def _unparsed(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    return "No answer could be read off the reply."


def _unscored(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    reason = f": {readable(reason_of(wrong))}" if reason_of(wrong) else ""
    return f"No verdict was reached{reason}. That says nothing of the answer; it is counted apart."


def _failed(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    return "The model gave no reply. That says nothing of its answers; it is counted apart."


_FINDINGS: dict[str, Callable[[WrongAnswer, QuestionAnswer], str]] = {
    "incorrect": _incorrect,
    "not_attempted": _not_attempted,
    "false_refusal": _false_refusal,
    "hallucinated": _hallucinated,
    "unparsed": _unparsed,
    "unscored": _unscored,
    "failed": _failed,
}
